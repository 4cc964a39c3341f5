#include "sextant/hf/hf_names.h"

#include <gtest/gtest.h>

#include <map>

#include "sextant/base/check.h"

namespace sx {
namespace {

std::map<std::string, HfParam> by_name(const ModelShape& shape) {
  std::map<std::string, HfParam> params;
  for (HfParam& param : hf_params(shape)) params.emplace(param.name, std::move(param));
  return params;
}

ModelShape named_shape(Arch arch) {
  ModelShape shape = defaults_for(arch);
  shape.num_layers = 12;
  shape.hidden = 16;
  shape.num_heads = 4;
  shape.vocab_size = 97;
  shape.max_positions = 32;
  derive_sizes(shape);
  return shape;
}

TEST(HfNames, Gpt2KeepsMatricesTurnedAndAttentionInOne) {
  const auto params = by_name(named_shape(Arch::kGpt2));
  const HfParam& key = params.at("layers.10.attention.wk.weight");
  EXPECT_EQ(key.tensor, "transformer.h.10.attn.c_attn.weight");
  EXPECT_EQ(key.tensor_shape, (std::vector<std::int64_t>{16, 48}));
  EXPECT_TRUE(key.transposed);
  EXPECT_EQ(key.first, 16);
  EXPECT_EQ(params.at("layers.1.attention.wv.weight").first, 32);
  const HfParam& bias = params.at("layers.1.attention.wv.bias");
  EXPECT_EQ(bias.tensor, "transformer.h.1.attn.c_attn.bias");
  EXPECT_EQ(bias.tensor_shape, (std::vector<std::int64_t>{48}));
  EXPECT_FALSE(bias.transposed);
  EXPECT_EQ(bias.first, 32);
  EXPECT_EQ(params.at("layers.0.feed_forward.up.weight").tensor, "transformer.h.0.mlp.c_fc.weight");
  EXPECT_EQ(params.at("layers.0.feed_forward.down.weight").tensor_shape,
            (std::vector<std::int64_t>{64, 16}));
  EXPECT_EQ(params.at("norm.bias").tensor, "transformer.ln_f.bias");
  EXPECT_EQ(params.at("pos_embeddings.weight").tensor, "transformer.wpe.weight");
  EXPECT_FALSE(params.contains("output.weight"));
}

TEST(HfNames, LlamaKindAndPaddedVocabulary) {
  ModelShape shape = named_shape(Arch::kQwen3);
  shape.num_heads_kv = 2;
  const auto params = by_name(shape);
  EXPECT_EQ(params.at("layers.11.attention.q_norm.weight").tensor,
            "model.layers.11.self_attn.q_norm.weight");
  const HfParam& key = params.at("layers.1.attention.wk.weight");
  EXPECT_EQ(key.tensor, "model.layers.1.self_attn.k_proj.weight");
  EXPECT_EQ(key.tensor_shape, (std::vector<std::int64_t>{8, 16}));
  const HfParam& head = params.at("output.weight");
  EXPECT_EQ(head.tensor, "lm_head.weight");
  EXPECT_FALSE(head.has_prefix);
  EXPECT_EQ(head.shape, (std::vector<std::int64_t>{128, 16}));
  EXPECT_EQ(head.rows, 97);
  EXPECT_EQ(head.tensor_shape, (std::vector<std::int64_t>{97, 16}));
  const auto biased = by_name(named_shape(Arch::kQwen2));
  EXPECT_EQ(biased.at("layers.3.attention.wq.bias").tensor, "model.layers.3.self_attn.q_proj.bias");
  EXPECT_FALSE(biased.contains("layers.3.attention.wo.bias"));
}

// Each of their tensors is covered by ours exactly once.
TEST(HfNames, OursTileTheirs) {
  for (const Arch arch : {Arch::kGpt2, Arch::kLlama, Arch::kQwen2, Arch::kQwen3}) {
    std::map<std::string, std::int64_t> covered, size;
    for (const HfParam& param : hf_params(named_shape(arch))) {
      covered[param.tensor] += param.rows * param.columns();
      std::int64_t elements = 1;
      for (const std::int64_t extent : param.tensor_shape) elements *= extent;
      size[param.tensor] = elements;
    }
    EXPECT_EQ(covered, size) << to_string(arch);
  }
}

TEST(HfNames, BuffersAreNoParameters) {
  EXPECT_TRUE(is_hf_buffer("h.0.attn.bias"));
  EXPECT_TRUE(is_hf_buffer("transformer.h.11.attn.masked_bias"));
  EXPECT_TRUE(is_hf_buffer("model.layers.0.self_attn.rotary_emb.inv_freq"));
  EXPECT_FALSE(is_hf_buffer("transformer.h.0.attn.c_attn.bias"));
  EXPECT_THROW(hf_params(shape_preset("mixtral-8x7b").value()), ContractError);
}

}  // namespace
}  // namespace sx
