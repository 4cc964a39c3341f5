#!/usr/bin/env bash
# clang-tidy (list in .clang-tidy) over torch-free sources of the folders known to be clean (tools/clang_tidy_clean.txt):
# those changed in the last 20 commits, or all of them with --all. A folder enters the list when it has become clean.
set -euo pipefail
cd "$(dirname "$0")/.."
# One command per source: in batches none would be found by its name.
cmake --preset core -B build/tidy -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 -DCMAKE_UNITY_BUILD=OFF \
      -DSX_BATCH_TESTS=OFF > /dev/null
cmake --build build/tidy --target sx_git_commit > /dev/null
mapfile -t clean < <(sed 's/#.*//; s/ *$//; /^$/d' tools/clang_tidy_clean.txt)
if [ "${1:-}" = --all ]; then
  list=$(git ls-files "${clean[@]/%//*.cpp}")
else
  base=$(git rev-list --max-count=21 HEAD | tail -1)
  list=$(git diff --name-only --diff-filter=d "$base" -- "${clean[@]/%//*.cpp}")
fi
files=()
for file in $list; do
  grep -q "/$file\"" build/tidy/compile_commands.json || { echo "clang-tidy: no command for $file"; exit 1; }
  files+=("$file")
done
[ ${#files[@]} -gt 0 ] || { echo "clang-tidy: no changed source in its folders"; exit 0; }
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 --quiet -p build/tidy --warnings-as-errors='*' 2>/dev/null
echo "clang-tidy: ${#files[@]} files"
