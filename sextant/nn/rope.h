#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace sx {

/// cos and sin of position * frequency (`rope_frequencies`), computed in double and rounded once;
/// [max_positions, D/2]. Half-split layout: element i is turned with element i + D/2, as in Hugging
/// Face's models. Source: RoFormer, arXiv 2104.09864, eq. 15, with pairs (i, i + D/2).
struct RopeTable {
  at::Tensor cos_PR, sin_PR;
};
RopeTable make_rope_table(std::int64_t max_positions, std::span<const double> frequencies,
                          c10::ScalarType dtype);

/// Turns x_BSND by its tokens' angles. Differentiable; saves only the angles.
at::Tensor apply_rope(const at::Tensor& x_BSND, const at::Tensor& cos_BSR,
                      const at::Tensor& sin_BSR);

}  // namespace sx
