"""The preset cuda compiles and links where there is no GPU: python3 tests/e2e/cuda_build_test.py

Takes nvcc and NCCL of the machine, or fetches their wheels (tools/setup/cuda.sh). What is linked is looked at, not run.
"""
import os
import subprocess

DEPS = ".deps/cuda/nvidia/cu13"


def main():
    subprocess.run(["tools/setup/cuda.sh"], check=True)
    flags = []
    if not os.path.exists("/usr/local/cuda/bin/nvcc"):
        flags = [f"-DCMAKE_CUDA_COMPILER={os.path.abspath(DEPS)}/bin/nvcc", f"-DCUDAToolkit_ROOT={os.path.abspath(DEPS)}"]
    subprocess.run(["cmake", "--preset", "cuda", "-DSX_BENCH=OFF", *flags], check=True)
    subprocess.run(["cmake", "--build", "--preset", "cuda", "--target", "nccl_test"], check=True)
    program = "build/cuda/bin/nccl_test"
    needed = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    for library in ("libnccl.so.2", "libtorch_cuda.so", "libc10_cuda.so"):
        assert library in needed, f"{program} does not need {library}"
    symbols = subprocess.run(["nm", "-C", program], capture_output=True, text=True, check=True).stdout
    for symbol in ("ncclCommSplit", "ncclCommInitRankConfig", "ncclCommGetAsyncError", "sx::detail::fold_cuda("):
        assert symbol in symbols, f"{program} has no {symbol}"
    print("the preset cuda compiles and links; it was not run")


main()
