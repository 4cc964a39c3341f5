// Rotary position embedding. A rotation's gradient is the rotation back, so nothing but the angles
// is kept.
#include "sextant/nn/rope.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "sextant/base/check.h"

namespace sx {
namespace {

/// Turns by the angles, or back for sign = -1. x [B, S, N, D], cos and sin [B, S, 1, D/2].
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, double sign) {
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor first = x.narrow(-1, 0, half), second = x.narrow(-1, half, half);
  at::Tensor out = at::empty(x.sizes(), x.options());
  at::Tensor out_first = out.narrow(-1, 0, half), out_second = out.narrow(-1, half, half);
  at::mul_out(out_first, first, cos);
  out_first.addcmul_(second, sin, -sign);
  at::mul_out(out_second, second, cos);
  out_second.addcmul_(first, sin, sign);
  return out;
}

struct Rotate : torch::autograd::Function<Rotate> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& cos, const at::Tensor& sin) {
    ctx->save_for_backward({cos, sin});
    return rotate(x, cos, sin, 1.0);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {rotate(grads[0], saved[0], saved[1], -1.0), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

RopeTable make_rope_table(std::int64_t max_positions, std::span<const double> frequencies,
                          c10::ScalarType dtype) {
  const auto half = static_cast<std::int64_t>(frequencies.size());
  at::Tensor cos = at::empty({max_positions, half}, c10::kDouble);
  at::Tensor sin = at::empty({max_positions, half}, c10::kDouble);
  auto* cos_data = static_cast<double*>(cos.mutable_data_ptr());
  auto* sin_data = static_cast<double*>(sin.mutable_data_ptr());
  for (std::int64_t p = 0; p < max_positions; ++p) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * frequencies[static_cast<std::size_t>(i)];
      cos_data[p * half + i] = std::cos(angle);
      sin_data[p * half + i] = std::sin(angle);
    }
  }
  return {cos.to(dtype), sin.to(dtype)};
}

at::Tensor apply_rope(const at::Tensor& x_BSND, const at::Tensor& cos_BSR,
                      const at::Tensor& sin_BSR) {
  SX_CHECK(cos_BSR.size(-1) * 2 == x_BSND.size(-1), "angles for head_dim {}, heads of {}",
           cos_BSR.size(-1) * 2, x_BSND.size(-1));
  return Rotate::apply(x_BSND, cos_BSR.unsqueeze(2).to(x_BSND.scalar_type()),
                       sin_BSR.unsqueeze(2).to(x_BSND.scalar_type()));
}

}  // namespace sx
