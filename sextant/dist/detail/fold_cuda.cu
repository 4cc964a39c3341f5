// The fold in ascending rank order on the device: one thread per element walks over the ranks, so
// the order of additions is that of the host's fold.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "sextant/dist/detail/fold_cuda.h"

namespace sx::detail {
namespace {

template <class T>
struct Element {
  using Acc = T;
  static __device__ Acc load(T x) { return x; }
  static __device__ T store(Acc x) { return x; }
};
template <>
struct Element<__half> {
  using Acc = float;
  static __device__ Acc load(__half x) { return __half2float(x); }
  static __device__ __half store(Acc x) { return __float2half_rn(x); }
};
template <>
struct Element<__nv_bfloat16> {
  using Acc = float;
  static __device__ Acc load(__nv_bfloat16 x) { return __bfloat162float(x); }
  static __device__ __nv_bfloat16 store(Acc x) { return __float2bfloat16_rn(x); }
};

/// `x != x` hands on NaN from either side.
template <FoldOp kOp, class Acc>
__device__ Acc combine(Acc a, Acc b) {
  if constexpr (kOp == FoldOp::kSum) return a + b;
  if constexpr (kOp == FoldOp::kMax) return (a > b || a != a) ? a : b;
  return (a < b || a != a) ? a : b;
}

template <class T, FoldOp kOp>
__global__ void fold_kernel(const T* slices, int num_inputs, T* out, std::int64_t numel) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < numel;
       i += stride) {
    auto acc = Element<T>::load(slices[i]);
    for (int rank = 1; rank < num_inputs; ++rank) {
      acc = combine<kOp>(acc, Element<T>::load(slices[rank * numel + i]));
    }
    out[i] = Element<T>::store(acc);
  }
}

template <class T>
cudaError_t fold_as(FoldOp op, const std::byte* slices, int num_inputs, std::byte* out,
             std::int64_t numel, cudaStream_t stream) {
  constexpr int kThreads = 256;
  const std::int64_t wanted = (numel + kThreads - 1) / kThreads;
  const int blocks = static_cast<int>(wanted < 4096 ? wanted : 4096);
  const auto* in = reinterpret_cast<const T*>(slices);
  auto* to = reinterpret_cast<T*>(out);
  switch (op) {
    case FoldOp::kSum:
      fold_kernel<T, FoldOp::kSum><<<blocks, kThreads, 0, stream>>>(in, num_inputs, to, numel);
      break;
    case FoldOp::kMax:
      fold_kernel<T, FoldOp::kMax><<<blocks, kThreads, 0, stream>>>(in, num_inputs, to, numel);
      break;
    case FoldOp::kMin:
      fold_kernel<T, FoldOp::kMin><<<blocks, kThreads, 0, stream>>>(in, num_inputs, to, numel);
      break;
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t fold_cuda(FoldType type, FoldOp op, const std::byte* slices, int num_inputs,
                      std::byte* out, std::int64_t numel, cudaStream_t stream) {
  if (numel == 0) return cudaSuccess;
  switch (type) {
    case FoldType::kDouble: return fold_as<double>(op, slices, num_inputs, out, numel, stream);
    case FoldType::kFloat: return fold_as<float>(op, slices, num_inputs, out, numel, stream);
    case FoldType::kBFloat16:
      return fold_as<__nv_bfloat16>(op, slices, num_inputs, out, numel, stream);
    case FoldType::kHalf: return fold_as<__half>(op, slices, num_inputs, out, numel, stream);
    case FoldType::kLong: return fold_as<long long>(op, slices, num_inputs, out, numel, stream);
    case FoldType::kInt: return fold_as<int>(op, slices, num_inputs, out, numel, stream);
    case FoldType::kChar: return fold_as<signed char>(op, slices, num_inputs, out, numel, stream);
    case FoldType::kByte: return fold_as<unsigned char>(op, slices, num_inputs, out, numel, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace sx::detail
