#include "sextant/cp/merge.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/logaddexp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sextant/base/check.h"

namespace sx {
namespace {

template <class T>
void merge_row(T* out, T& lse, const T* block, T block_lse, std::int64_t d) {
  if (block_lse == -std::numeric_limits<T>::infinity()) return;
  const T weight = T(1) / (T(1) + std::exp(lse - block_lse));
  for (std::int64_t i = 0; i < d; ++i) out[i] -= weight * (out[i] - block[i]);
  lse = std::max(lse, block_lse) + std::log1p(std::exp(-std::abs(lse - block_lse)));
}

template <class T>
void merge_on_cpu(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& block,
                  const at::Tensor& block_lse) {
  constexpr std::int64_t kGrain = 512;
  const std::int64_t t = out.size(1), n = out.size(2), d = out.size(3);
  const auto o = out.strides().vec(), l = lse.strides().vec(), b = block.strides().vec(),
             m = block_lse.strides().vec();
  T* const out_data = out.mutable_data_ptr<T>();
  T* const lse_data = lse.mutable_data_ptr<T>();
  const T* const block_data = block.const_data_ptr<T>();
  const T* const block_lse_data = block_lse.const_data_ptr<T>();
  at::parallel_for(0, out.size(0) * t * n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t h = row % n, i = row / n % t, j = row / n / t;
      merge_row(out_data + j * o[0] + i * o[1] + h * o[2], lse_data[j * l[0] + i * l[1] + h * l[2]],
                block_data + j * b[0] + i * b[1] + h * b[2],
                block_lse_data[j * m[0] + i * m[1] + h * m[2]], d);
    }
  });
}

void merge_by_operators(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& block,
                        const at::Tensor& block_lse) {
  const at::Tensor weight = (block_lse - lse).sigmoid().nan_to_num(0.0).unsqueeze(-1);
  out.sub_(weight * (out - block));
  lse.copy_(at::logaddexp(lse, block_lse));
}

}  // namespace

void merge_attention(const at::Tensor& out_BTND, const at::Tensor& lse_BTN,
                     const at::Tensor& block_BTND, const at::Tensor& block_lse_BTN) {
  const auto same = [&](const at::Tensor& x) { return x.scalar_type() == out_BTND.scalar_type(); };
  SX_CHECK(same(lse_BTN) && same(block_BTND) && same(block_lse_BTN), "parts of several dtypes");
  SX_CHECK(block_BTND.sizes() == out_BTND.sizes() && lse_BTN.sizes() == block_lse_BTN.sizes() &&
               lse_BTN.numel() * out_BTND.size(3) == out_BTND.numel(),
           "parts of several shapes");
  if (!out_BTND.is_cpu()) {
    return merge_by_operators(out_BTND, lse_BTN, block_BTND, block_lse_BTN);
  }
  SX_CHECK(out_BTND.stride(3) == 1 && block_BTND.stride(3) == 1, "the last dim is not dense");
  if (out_BTND.scalar_type() == at::kDouble) {
    merge_on_cpu<double>(out_BTND, lse_BTN, block_BTND, block_lse_BTN);
  } else {
    SX_CHECK(out_BTND.scalar_type() == at::kFloat, "merging is in fp32 or fp64");
    merge_on_cpu<float>(out_BTND, lse_BTN, block_BTND, block_lse_BTN);
  }
}

void merge_sink(const at::Tensor& out_BTND, const at::Tensor& lse_BTN, const at::Tensor& sink_N) {
  const at::Tensor both = at::logaddexp(lse_BTN, sink_N);
  out_BTND.mul_((lse_BTN - both).exp_().unsqueeze(-1));
  lse_BTN.copy_(both);
}

at::Tensor sink_gradient(const at::Tensor& grad_BTND, const at::Tensor& out_BTND,
                         const at::Tensor& lse_BTN, const at::Tensor& sink_N) {
  const at::Tensor delta = (grad_BTND.to(lse_BTN.scalar_type()) * out_BTND).sum(-1);
  return ((sink_N - lse_BTN).exp_() * delta).sum(at::IntArrayRef{0, 1}).neg_();
}

}  // namespace sx
