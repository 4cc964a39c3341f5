#!/usr/bin/env bash
# Builds a sanitizer preset and runs its fast tests.
#
#   tools/sanitized_tests.sh asan|ubsan|tsan
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?preset}
mkdir -p "build/$preset"
cmake --preset "$preset" > "build/$preset/configure.log"
cmake --build --preset "$preset" > "build/$preset/build.log" 2>&1 || { tail -40 "build/$preset/build.log"; exit 1; }
ctest --preset "$preset"
