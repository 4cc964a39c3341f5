#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/shape/model_shape.h"

namespace sx {

/// One of our parameters and the tensor of Hugging Face's that holds it.
///
/// Row r, column c of the parameter is element (first + r, c) of the tensor, or element (c, first +
/// r) if `transposed` (GPT-2 keeps matrices as [in, out]). Rows from `rows` on pad the vocabulary:
/// zero, and not in the tensor.
struct HfParam {
  std::string name;                 ///< "layers.0.attention.wq.weight"
  std::vector<std::int64_t> shape;  ///< ours, vocabulary padded
  std::int64_t rows = 0;            ///< rows of ours that the tensor has
  std::string tensor;               ///< "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> tensor_shape;
  bool transposed = false;
  std::int64_t first = 0;   ///< of the tensor's outputs
  bool has_prefix = false;  ///< `tensor` begins with a prefix that old files lack

  std::int64_t num_elements() const;
  std::int64_t columns() const;  ///< 1 for vectors
};

/// Every parameter in checkpoint order. A tied head has no entry.
/// Errors: ContractError for shapes with faults or experts.
std::vector<HfParam> hf_params(const ModelShape& shape);

/// Tensors that old files hold and that are no parameters (masks, rotary frequencies).
bool is_hf_buffer(std::string_view tensor);

/// The head's name in files that write it although it is tied: "lm_head.weight".
inline constexpr std::string_view kHfHead = "lm_head.weight";
/// What stands before all names but the head's: "transformer." or "model.".
std::string_view hf_prefix(const ModelShape& shape);

}  // namespace sx
