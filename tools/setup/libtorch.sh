#!/usr/bin/env bash
# Puts LibTorch (the wheel `torch`, no Python needed at run time) into .deps/libtorch/.
#
#   tools/setup/libtorch.sh [VERSION [FOLDER]]      default 2.15.0 .deps/libtorch
#
# Another version beside the default one: tools/setup/libtorch.sh 2.11.0 .deps/libtorch-2.11.0, then configure with
# -DTorch_ROOT=$PWD/.deps/libtorch-2.11.0/torch. A second call does nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/setup/wheel.sh
version=${1:-2.15.0}
target=${2:-.deps/libtorch}
cuda_version=13.2.86   # libcupti and libcudart, which libtorch_cpu.so needs to load

if [ "$(cat "$target/.version" 2>/dev/null)" = "$version" ] && [ -e "$target/torch/lib/libtorch_cpu.so" ]; then
  exit 0
fi
mkdir -p .deps
rm -rf "$target.new"
mkdir -p "$target.new"
for requirement in "torch==$version" "nvidia-cuda-cupti==$cuda_version" "nvidia-cuda-runtime==$cuda_version"; do
  wheel=$(fetch_wheel "$requirement") || exit 3
  echo "unpacking $(basename "$wheel")" >&2
  unzip -q -o "$wheel" -d "$target.new"
done
echo "$version" > "$target.new/.version"
rm -rf "$target"
mv "$target.new" "$target"
