#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sextant/shape/model_shape.h"

namespace sx {

enum class ParamRole {
  kEmbed,
  kPos,
  kNorm,
  kQ,
  kK,
  kV,
  kO,
  kGate,
  kUp,
  kDown,
  kRouter,
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kShared,
  kHead,
};
const char* to_string(ParamRole role);

/// One parameter of a model, as the checkpoint names it.
struct ParamInfo {
  std::string name;  ///< "layers.0.attention.wq.weight"
  std::vector<std::int64_t> global_shape;
  std::int64_t num_elements = 0;
  std::int64_t layer_idx = -1;  ///< -1 outside the layers
  ParamRole role = ParamRole::kNorm;
  bool matmul = false;          ///< used as a matrix in a product; the embedding lookup is not
  double uses_per_token = 1.0;  ///< k/E for routed experts, 0 for lookups
  int tp_dim = -1;              ///< hint: dimension that tensor parallelism cuts, -1 = replicated
  bool ep = false;              ///< hint: first dimension is experts
  std::string tied_to;  ///< other uses of the same tensor: "output.weight" on a tied embedding
  bool decay = false;   ///< takes weight decay by default: everything but norms and biases
};

/// Whether rows of embedding and head are counted as stored (a multiple of vocab_pad_to) or as the
/// model has them.
enum class VocabRows { kPadded, kReal };

/// Every parameter in checkpoint order: embeddings, layers, final norm, head. A tied head has no
/// entry of its own. The trainer's modules must agree with kPadded name by name and shape by shape
/// (test in sx_nn). Errors: ContractError if shape.validate() has faults.
std::vector<ParamInfo> inventory(const ModelShape& shape, VocabRows rows = VocabRows::kPadded);

/// Parameters of the model (real vocabulary).
std::int64_t num_params(const ModelShape& shape);
/// Of these, the ones one token uses: k of E experts.
std::int64_t num_params_active(const ModelShape& shape);
/// Parameters of the rank-2 matrices only, without norms and biases.
std::int64_t num_params_matrices(const ModelShape& shape);
/// M: matmul parameters used by one token; a tied head counts once, as head.
std::int64_t num_params_matmul(const ModelShape& shape);

/// 12 L N D S: forward and backward of the attention scores and their use, full square.
double attention_flops_per_token(const ModelShape& shape, std::int64_t seq_len);
/// 6 M + attention_flops: the definition behind `mfu`, comparable with published figures (PaLM,
/// arXiv 2204.02311 app. B). No recompute.
double model_flops_per_token(const ModelShape& shape, std::int64_t seq_len);
/// The same with half the attention, as causal attention computes; behind `mfu_causal`, printed
/// beside `mfu`.
double model_flops_causal_per_token(const ModelShape& shape, std::int64_t seq_len);

}  // namespace sx
