#!/usr/bin/env bash
# Builds the libFuzzer targets and runs each for a few seconds from its corpus.
#
#   tools/fuzz_smoke.sh [SECONDS]      default 5
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-5}
cmake --preset fuzz > /dev/null
cmake --build --preset fuzz --target fuzzers > build/fuzz/build.log 2>&1 || { tail -40 build/fuzz/build.log; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
found=0
for target in build/fuzz/bin/*_fuzz; do
  found=1
  name=$(basename "$target" _fuzz)
  mkdir -p "$scratch/$name"
  seeds=()
  [ -d "tests/fuzz/corpus/$name" ] && seeds=("tests/fuzz/corpus/$name")
  log=$scratch/$name.log
  if ! "$target" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -artifact_prefix="$scratch/" \
       "$scratch/$name" "${seeds[@]}" > "$log" 2>&1; then
    tail -40 "$log"
    echo "fuzz $name: FAILED"
    exit 1
  fi
  echo "fuzz $name: $(grep -oE 'DONE.*|Done.*' "$log" | tail -1)"
done
[ $found = 1 ]
