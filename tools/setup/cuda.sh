#!/usr/bin/env bash
# Puts what the preset cuda compiles with into .deps/cuda/, unless this machine has it: nvcc and its parts, the headers
# and library of the CUDA run time, and NCCL, from the wheels that carry them. A second call does nothing.
#
#   tools/setup/cuda.sh            does nothing where /usr/local/cuda holds nvcc and nccl.h
#   tools/setup/cuda.sh --wheels   takes the wheels all the same
#
# Configure then with -DCMAKE_CUDA_COMPILER=$PWD/.deps/cuda/nvidia/cu13/bin/nvcc.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/setup/wheel.sh
cuda=13.2.86
nccl=2.28.9
target=.deps/cuda
stamp="$cuda $nccl"

if [ "${1:-}" != --wheels ] && [ -x /usr/local/cuda/bin/nvcc ] && [ -e /usr/local/cuda/include/nccl.h ]; then
  exit 0
fi
[ "$(cat $target/.version 2>/dev/null)" = "$stamp" ] && exit 0
mkdir -p .deps
rm -rf $target.new
mkdir -p $target.new
for requirement in "nvidia-cuda-nvcc==$cuda" "nvidia-cuda-crt==$cuda" "nvidia-nvvm==$cuda" "nvidia-cuda-runtime==$cuda" \
                   "nvidia-cuda-cccl==$cuda" "nvidia-nccl-cu13==$nccl"; do
  wheel=$(fetch_wheel "$requirement") || exit 3
  echo "unpacking $(basename "$wheel")" >&2
  unzip -q -o "$wheel" -d $target.new
done
# Wheels carry libraries by their full names only, and no mark of what may be run.
chmod +x $target.new/nvidia/cu13/bin/* $target.new/nvidia/cu13/nvvm/bin/* 2>/dev/null || true
(
  cd $target.new/nvidia/cu13/lib
  for library in lib*.so.*; do ln -sf "$library" "${library%%.so.*}.so"; done
)
[ -e $target.new/nvidia/cu13/lib64 ] || ln -s lib $target.new/nvidia/cu13/lib64
echo "$stamp" > $target.new/.version
rm -rf $target
mv $target.new $target
