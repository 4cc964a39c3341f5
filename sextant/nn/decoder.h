#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sextant/nn/kv_cache.h"
#include "sextant/nn/layers.h"
#include "sextant/nn/module.h"
#include "sextant/shape/model_shape.h"

namespace sx {

/// One microbatch for a decoder; int32 or int64 tensors on the CPU.
struct DecoderInput {
  at::Tensor tokens_BS;
  at::Tensor positions_BS;  ///< undefined: 0, 1, 2, ... in every row
  /// Undefined: each row is one document. Else equal neighbours belong together and attention does
  /// not cross a change; positions are not derived from it.
  at::Tensor document_ids_BS;
};

struct DecoderOptions {
  /// Undefined: the dtype of the parameters. kBFloat16 or kHalf with fp32 parameters: matrices are
  /// cast for each use, products and activations are 16 bits wide, norms' statistics, softmax and
  /// loss fp32, gradients of parameters fp32.
  std::optional<c10::ScalarType> compute_dtype;
};

/// Which parts of a decoder's blocks are computed again in backward instead of being kept.
struct RecomputePlan {
  bool full = false;  ///< whole blocks: only their inputs are kept
  bool attention_core = false;
  bool mlp_activation = false;
  bool norms = false;
  std::int64_t every = 1;  ///< blocks 0, every, 2*every, ...
  std::int64_t first = 0;  ///< only blocks below it; 0 = all
};

/// Norm, causal attention, norm, feed-forward, both with a residual sum.
class DecoderBlock : public Module {
 public:
  DecoderBlock(Module& parent, std::int64_t layer_idx, const ModelShape& shape);
  at::Tensor forward(const at::Tensor& x_BSH,
                     const std::shared_ptr<const AttentionContext>& context);
  void apply(const RecomputePlan& plan);

 private:
  Norm attention_norm_;
  Attention attention_;
  Norm ffn_norm_;
  FeedForward feed_forward_;
};

/// A causal language model of the GPT-2 or Llama kind, as `ModelShape` says. Knows nothing of
/// ranks.
///
/// Units: tok_embeddings, every layers.{i}, and the root (final norm and head) as the last one.
/// Errors:  ContractError for shapes that are not dense (experts) or not valid.
/// Sources: GPT-2 (Radford et al. 2019), Llama (arXiv 2302.13971), grouped queries (2305.13245),
/// RoPE (2104.09864).
class Decoder : public Module {
 public:
  explicit Decoder(const ModelShape& shape, DecoderOptions options = {});
  ~Decoder() override;

  /// Logits over the padded vocabulary, [B, S, padded_vocab]: the columns from vocab_size on mean
  /// nothing and are ignored by the loss and by sampling. With `cache` (inference, no grad): the
  /// tokens continue the cached ones at positions cache->length(), which grows by S; positions and
  /// documents must be undefined then.
  at::Tensor forward(const DecoderInput& input, KvCache* cache = nullptr);

  /// The sum of the cross entropies of the counted tokens (`head_cross_entropy_sum`): what training
  /// calls. The logits of all tokens are never in memory together. `grad_seed`: as there.
  at::Tensor loss_sum(const DecoderInput& input, const at::Tensor& targets_BS,
                      const at::Tensor& loss_mask_BS, double grad_seed = 1.0);

  /// The same per row, [B] in fp32 (fp64 for fp64 models): for scoring; no gradients.
  at::Tensor row_loss_sums(const DecoderInput& input, const at::Tensor& targets_BS,
                           const at::Tensor& loss_mask_BS);

  /// As forward, without the head: normed hidden states [B, S, H].
  at::Tensor hidden_states(const DecoderInput& input, KvCache* cache = nullptr);

  /// As forward, for the last token of each row only: [B, padded_vocab]. For sampling.
  at::Tensor last_logits(const DecoderInput& input, KvCache* cache = nullptr);

  /// Changes memory and time, not bits. Off after construction.
  void apply(const RecomputePlan& plan);

  const ModelShape& shape() const { return shape_; }
  /// Dtype of activations and logits. Errors: needs allocated parameters.
  c10::ScalarType compute_dtype() const;

 private:
  at::Tensor embed_and_run(const DecoderInput& input, KvCache* cache);
  at::Tensor make_positions(const DecoderInput& input, std::int64_t first) const;
  std::shared_ptr<const AttentionContext> make_context(const DecoderInput& input,
                                                       const at::Tensor& positions_BS,
                                                       KvCache* cache);
  at::Tensor head(const at::Tensor& x_BSH);
  at::Tensor head_weight(const at::Tensor& like) const;  ///< in the dtype of `like`

  ModelShape shape_;
  DecoderOptions options_;
  Embedding tok_embeddings_;
  std::unique_ptr<Embedding> pos_embeddings_;
  std::vector<std::unique_ptr<DecoderBlock>> layers_;
  std::unique_ptr<Norm> norm_;
  std::unique_ptr<Linear> output_;
  RopeTable rope_;  ///< grows to the largest position seen
};

}  // namespace sx
