#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace sx {

/// Token i of `from` [B, T, ...] becomes token places[i] of `to`. Neighbours are copied together.
void put_tokens(const at::Tensor& to, const at::Tensor& from, std::span<const std::int64_t> places);
/// Token i of `to` becomes token places[i] of `from`.
void take_tokens(const at::Tensor& to, const at::Tensor& from,
                 std::span<const std::int64_t> places);

/// [K | V] of T tokens as views of one flat buffer.
struct KeyValue {
  at::Tensor k_BTGD, v_BTGD;
};
std::int64_t key_value_numel(const at::Tensor& k_BTGD, std::int64_t tokens);
/// `flat` has at least key_value_numel elements from `offset` on; sizes but T are those of `like`.
KeyValue key_value_views(const at::Tensor& flat, std::int64_t offset, const at::Tensor& like_BTGD,
                         std::int64_t tokens);

}  // namespace sx
