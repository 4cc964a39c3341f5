// The decoder: embeddings, blocks, final norm, head. Which of its variants a model uses is read
// from ModelShape. Letters: B batch, S sequence, H hidden, V padded vocabulary, R = D/2.
#include "sextant/nn/decoder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>

#include "sextant/base/check.h"
#include "sextant/nn/head_loss.h"

namespace sx {
namespace {

std::int64_t next_power_of_two(std::int64_t n) {
  std::int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

}  // namespace

DecoderBlock::DecoderBlock(Module& parent, std::int64_t layer_idx, const ModelShape& shape)
    : Module(parent, "layers." + std::to_string(layer_idx)),
      attention_norm_(*this, "attention_norm", shape.hidden, shape.norm, shape.norm_eps),
      attention_(*this, layer_idx, shape),
      ffn_norm_(*this, "ffn_norm", shape.hidden, shape.norm, shape.norm_eps),
      feed_forward_(*this, shape) {
  mark_unit();
}

at::Tensor DecoderBlock::forward(const at::Tensor& x_BSH,
                                 const std::shared_ptr<const AttentionContext>& context) {
  return call(x_BSH, [this, context](const at::Tensor& x) {
    const at::Tensor h = x.add(attention_.forward(attention_norm_.forward(x), *context));
    return h.add(feed_forward_.forward(ffn_norm_.forward(h)));
  });
}

void DecoderBlock::apply(const RecomputePlan& plan) {
  set_recompute(plan.full);
  attention_.set_recompute(plan.attention_core && !plan.full);
  feed_forward_.set_recompute(plan.mlp_activation && !plan.full);
  attention_norm_.set_recompute(plan.norms && !plan.full);
  ffn_norm_.set_recompute(plan.norms && !plan.full);
}

Decoder::Decoder(const ModelShape& shape, DecoderOptions options)
    : shape_(shape),
      options_(options),
      tok_embeddings_(*this, "tok_embeddings", shape.padded_vocab(), shape.hidden, shape.init_std,
                      shape.vocab_size) {
  const std::vector<ShapeFault> faults = shape.validate();
  SX_CHECK(faults.empty(), "shape {}: {} (rule: {})", shape.name, faults.front().what,
           faults.front().rule);
  SX_CHECK(shape.num_experts == 0, "shape {} has experts; this decoder is dense", shape.name);
  if (shape.positions == Positions::kLearned) {
    pos_embeddings_ = std::make_unique<Embedding>(*this, "pos_embeddings", shape.max_positions,
                                                  shape.hidden, shape.init_std);
  }
  for (std::int64_t layer = 0; layer < shape.num_layers; ++layer) {
    layers_.push_back(std::make_unique<DecoderBlock>(*this, layer, shape));
  }
  norm_ = std::make_unique<Norm>(*this, "norm", shape.hidden, shape.norm, shape.norm_eps);
  if (!shape.tie_embeddings) {
    output_ = std::make_unique<Linear>(*this, "output", shape.padded_vocab(), shape.hidden, false,
                                       shape.init_std, shape.vocab_size);
  } else {
    add_alias("output.weight", tok_embeddings_.weight());
  }
  mark_unit();
}

Decoder::~Decoder() = default;

c10::ScalarType Decoder::compute_dtype() const {
  return options_.compute_dtype.value_or(tok_embeddings_.weight().tensor.scalar_type());
}

void Decoder::apply(const RecomputePlan& plan) {
  SX_CHECK(plan.every >= 1 && plan.first >= 0, "recompute every {} of the first {} blocks",
           plan.every, plan.first);
  const auto num_layers = static_cast<std::int64_t>(layers_.size());
  for (std::int64_t layer = 0; layer < num_layers; ++layer) {
    const bool chosen = layer % plan.every == 0 && (plan.first == 0 || layer < plan.first);
    layers_[static_cast<std::size_t>(layer)]->apply(chosen ? plan : RecomputePlan{});
  }
}

std::shared_ptr<const AttentionContext> Decoder::make_context(const DecoderInput& input,
                                                              const at::Tensor& positions_BS,
                                                              KvCache* cache) {
  const auto made = std::make_shared<AttentionContext>();
  AttentionContext& context = *made;
  context.cache = cache;
  const std::int64_t batch = input.tokens_BS.size(0), seq_len = input.tokens_BS.size(1);
  context.segments = input.document_ids_BS.defined() ? document_segments(input.document_ids_BS)
                                                     : whole_rows(batch, seq_len);
  if (shape_.positions != Positions::kRope) return made;
  const std::int64_t needed = positions_BS.max().item<std::int64_t>() + 1;
  const c10::ScalarType dtype = tok_embeddings_.weight().tensor.scalar_type();
  if (!rope_.cos_PR.defined() || rope_.cos_PR.size(0) < needed) {
    rope_ = make_rope_table(
        std::min(next_power_of_two(needed), shape_.max_positions),
        rope_frequencies(shape_.head_dim, shape_.rope_theta, shape_.rope_scaling), dtype);
  }
  const auto gather = [&](const at::Tensor& table_PR) {
    return table_PR.index_select(0, positions_BS.reshape({-1}))
        .view({positions_BS.size(0), positions_BS.size(1), -1})
        .to(compute_dtype());
  };
  context.cos_BSR = gather(rope_.cos_PR);
  context.sin_BSR = gather(rope_.sin_PR);
  return made;
}

at::Tensor Decoder::make_positions(const DecoderInput& input, std::int64_t first) const {
  const at::Tensor positions_BS =
      input.positions_BS.defined()
          ? input.positions_BS.to(c10::kLong)
          : at::arange(first, first + input.tokens_BS.size(1), c10::kLong).unsqueeze(0);
  const std::int64_t low = positions_BS.min().item<std::int64_t>();
  const std::int64_t high = positions_BS.max().item<std::int64_t>();
  SX_CHECK(low >= 0 && high < shape_.max_positions, "positions {} to {} of a model for {}", low,
           high, shape_.max_positions);
  return positions_BS;
}

at::Tensor Decoder::embed_and_run(const DecoderInput& input, KvCache* cache) {
  SX_CHECK(input.tokens_BS.dim() == 2 && input.tokens_BS.numel() > 0,
           "tokens are [B, S], not empty");
  SX_CHECK(tok_embeddings_.weight().tensor.defined(), "the decoder has no memory: allocate first");
  if (cache != nullptr) {
    SX_CHECK(!at::GradMode::is_enabled(), "a cache is for inference: turn grad mode off");
    SX_CHECK(!input.positions_BS.defined() && !input.document_ids_BS.defined(),
             "with a cache, positions and documents follow from its length");
  }
  const at::Tensor tokens_BS = input.tokens_BS.to(c10::kLong);
  const at::Tensor positions_BS = make_positions(input, cache == nullptr ? 0 : cache->length());
  at::Tensor x_BSH = tok_embeddings_.forward(tokens_BS);
  if (pos_embeddings_) x_BSH = x_BSH.add(pos_embeddings_->forward(positions_BS));
  x_BSH = x_BSH.to(compute_dtype());
  const auto context = make_context(input, positions_BS, cache);
  for (const auto& layer : layers_) x_BSH = layer->forward(x_BSH, context);
  if (cache != nullptr) cache->advance(tokens_BS.size(1));
  return x_BSH;
}

at::Tensor Decoder::head_weight(const at::Tensor& like) const {
  const Parameter& weight = output_ ? output_->weight() : tok_embeddings_.weight();
  return weight.tensor.to(like.scalar_type());
}

at::Tensor Decoder::head(const at::Tensor& x_BSH) { return at::linear(x_BSH, head_weight(x_BSH)); }

at::Tensor Decoder::loss_sum(const DecoderInput& input, const at::Tensor& targets_BS,
                             const at::Tensor& loss_mask_BS, double grad_seed) {
  return call(embed_and_run(input, nullptr), [&](const at::Tensor& x_BSH) {
    const at::Tensor h_BSH = norm_->forward(x_BSH);
    return head_cross_entropy_sum(h_BSH, head_weight(h_BSH), targets_BS, loss_mask_BS,
                                  shape_.vocab_size, kHeadChunkBytes, grad_seed);
  });
}

at::Tensor Decoder::row_loss_sums(const DecoderInput& input, const at::Tensor& targets_BS,
                                  const at::Tensor& loss_mask_BS) {
  SX_CHECK(!at::GradMode::is_enabled(), "scores of rows are for inference: turn grad mode off");
  return call(embed_and_run(input, nullptr), [&](const at::Tensor& x_BSH) {
    const at::Tensor h_BSH = norm_->forward(x_BSH);
    const at::Tensor weight_VH = head_weight(h_BSH);
    std::vector<at::Tensor> sums;
    for (std::int64_t row = 0; row < h_BSH.size(0); ++row) {
      sums.push_back(head_cross_entropy_sum(h_BSH.narrow(0, row, 1), weight_VH,
                                            targets_BS.narrow(0, row, 1),
                                            loss_mask_BS.narrow(0, row, 1), shape_.vocab_size));
    }
    return at::stack(sums);
  });
}

at::Tensor Decoder::hidden_states(const DecoderInput& input, KvCache* cache) {
  return call(embed_and_run(input, cache),
              [this](const at::Tensor& x_BSH) { return norm_->forward(x_BSH); });
}

at::Tensor Decoder::forward(const DecoderInput& input, KvCache* cache) {
  return call(embed_and_run(input, cache),
              [this](const at::Tensor& x_BSH) { return head(norm_->forward(x_BSH)); });
}

at::Tensor Decoder::last_logits(const DecoderInput& input, KvCache* cache) {
  return call(embed_and_run(input, cache), [this](const at::Tensor& x_BSH) {
    return head(norm_->forward(x_BSH.narrow(1, x_BSH.size(1) - 1, 1))).squeeze(1);
  });
}

}  // namespace sx
