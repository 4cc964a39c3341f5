#!/usr/bin/env bash
# Runs every benchmark of build/release/bin and prints one JSON line per measurement (Google Benchmark's fields).
#
#   tools/bench.sh [FILTER]      a regular expression over benchmark names
set -euo pipefail
cd "$(dirname "$0")/.."
found=0
for program in build/release/bin/bench_*; do
  [ -x "$program" ] || continue
  found=1
  "$program" --benchmark_format=json ${1:+--benchmark_filter="$1"} |
    python3 -c '
import json, sys
report = json.load(sys.stdin)
for row in report["benchmarks"]:
    print(json.dumps({"suite": sys.argv[1], **row}))' "$(basename "$program")"
done
[ $found = 1 ] || { echo "error: no benchmark is built; run ./sx build release" >&2; exit 2; }
