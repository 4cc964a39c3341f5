#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sextant/shape/model_shape.h"

namespace sx {

/// Keys and values of the tokens seen so far, per layer, for token-by-token decoding.
///
/// Shapes: k and v of a layer are [B, capacity, G, D]; rows from length() on are not yet written.
/// Cost:   2 * layers * B * capacity * G * D elements, allocated at construction.
class KvCache {
 public:
  KvCache(const ModelShape& shape, std::int64_t batch, std::int64_t capacity,
          c10::ScalarType dtype);

  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }
  void clear() { length_ = 0; }

  /// Writes S new rows behind length() and returns all rows up to there, [B, length() + S, G, D].
  /// length() itself moves in `advance`, after every layer has appended. Errors: ContractError
  /// beyond capacity().
  std::pair<at::Tensor, at::Tensor> append(std::int64_t layer_idx, const at::Tensor& k_BSGD,
                                           const at::Tensor& v_BSGD);
  void advance(std::int64_t num_tokens) { length_ += num_tokens; }

 private:
  std::vector<at::Tensor> keys_;
  std::vector<at::Tensor> values_;
  std::int64_t capacity_ = 0;
  std::int64_t length_ = 0;
};

}  // namespace sx
