#!/usr/bin/env bash
# Builds a sanitizer preset and runs its fast tests, or only the test programs named.
#
#   tools/sanitized_tests.sh asan|asan-torch|ubsan|tsan [shard_test dist_ranks_test ...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?preset}
shift
build=(cmake --build --preset "$preset")
tests=(ctest --preset "$preset")
if [ $# -gt 0 ]; then
  # dp_test holds the tests dp.*, dist_ranks_test the tests dist_tcp_* and dist_mpi_*.
  build+=(--target "$@")
  pattern=
  for program in "$@"; do
    case $program in
      *_ranks_test) name="${program%_ranks_test}_(tcp|mpi)_" ;;
      *) name="${program%_test}[.]" ;;
    esac
    pattern+="${pattern:+|}$name"
  done
  tests+=(-R "^($pattern)" --no-tests=error)
fi
mkdir -p "build/$preset"
cmake --preset "$preset" > "build/$preset/configure.log"
"${build[@]}" > "build/$preset/build.log" 2>&1 || { tail -40 "build/$preset/build.log"; exit 1; }
"${tests[@]}"
