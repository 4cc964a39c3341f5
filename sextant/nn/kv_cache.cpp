#include "sextant/nn/kv_cache.h"

#include <ATen/ops/zeros.h>

#include "sextant/base/check.h"

namespace sx {

KvCache::KvCache(const ModelShape& shape, std::int64_t batch, std::int64_t capacity,
                 c10::ScalarType dtype)
    : capacity_(capacity) {
  SX_CHECK(batch >= 1 && capacity >= 1, "cache of {} rows and {} tokens", batch, capacity);
  for (std::int64_t layer = 0; layer < shape.num_layers; ++layer) {
    keys_.push_back(at::zeros({batch, capacity, shape.num_heads_kv, shape.head_dim}, dtype));
    values_.push_back(at::zeros({batch, capacity, shape.num_heads_kv, shape.head_dim}, dtype));
  }
}

std::pair<at::Tensor, at::Tensor> KvCache::append(std::int64_t layer_idx, const at::Tensor& k_BSGD,
                                                  const at::Tensor& v_BSGD) {
  const std::int64_t added = k_BSGD.size(1), end = length_ + added;
  SX_CHECK(end <= capacity_, "{} tokens in a cache for {}", end, capacity_);
  at::Tensor& keys = keys_.at(static_cast<std::size_t>(layer_idx));
  at::Tensor& values = values_.at(static_cast<std::size_t>(layer_idx));
  keys.narrow(1, length_, added).copy_(k_BSGD);
  values.narrow(1, length_, added).copy_(v_BSGD);
  return {keys.narrow(1, 0, end), values.narrow(1, 0, end)};
}

}  // namespace sx
