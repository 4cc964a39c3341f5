#!/usr/bin/env bash
# clang-tidy (list in .clang-tidy) over the torch-free sources changed since the last 20 commits, or all with --all.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -e build/core/compile_commands.json ] || cmake --preset core > /dev/null
base=$(git rev-list --max-count=21 HEAD | tail -1)
if [ "${1:-}" = --all ]; then
  list=$(git ls-files 'sextant/*.cpp' 'apps/sextant/*.cpp')
else
  list=$(git diff --name-only --diff-filter=d "$base" -- 'sextant/*.cpp' 'apps/sextant/*.cpp')
fi
files=()
for file in $list; do
  grep -q "/$file\"" build/core/compile_commands.json && files+=("$file")
done
[ ${#files[@]} -gt 0 ] || { echo "no torch-free source changed"; exit 0; }
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 --quiet -p build/core --warnings-as-errors='*' 2>/dev/null
echo "clang-tidy: ${#files[@]} files"
