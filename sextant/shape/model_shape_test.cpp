#include "sextant/shape/model_shape.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sx {
namespace {

TEST(ModelShape, PresetsAreValid) {
  for (const std::string& name : shape_preset_names()) {
    const ModelShape shape = shape_preset(name).value();
    EXPECT_EQ(shape.name, name);
    EXPECT_TRUE(shape.validate().empty()) << name;
  }
}

TEST(ModelShape, UnknownNamesListTheKnownOnes) {
  const auto preset = shape_preset("gpt5");
  ASSERT_FALSE(preset.ok());
  EXPECT_EQ(preset.error().kind, ErrorKind::kNotFound);
  EXPECT_NE(preset.error().message.find("gpt2-124m"), std::string::npos);
  const auto arch = parse_arch("rnn");
  ASSERT_FALSE(arch.ok());
  EXPECT_NE(arch.error().message.find("llama gpt2"), std::string::npos);
  EXPECT_EQ(parse_activation("gelu_tanh").value(), Activation::kGeluTanh);
  EXPECT_EQ(parse_norm("layer").value(), NormKind::kLayer);
  EXPECT_EQ(parse_positions("none").value(), Positions::kNone);
}

TEST(ModelShape, ValidateReportsAllFaultsAtOnce) {
  ModelShape shape = shape_preset("tiny").value();
  shape.num_heads = 5;
  shape.head_dim = 7;
  shape.vocab_size = 0;
  shape.norm_eps = 0;
  std::vector<std::string> keys;
  for (const ShapeFault& fault : shape.validate()) keys.push_back(fault.key);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(keys, (std::vector<std::string>{"head_dim", "norm_eps", "num_heads_kv", "vocab_size"}));
}

TEST(ModelShape, HugeAndNegativeSizesAreFaults) {
  ModelShape shape = shape_preset("tiny").value();
  shape.num_layers = -1;
  shape.hidden = std::int64_t{1} << 40;
  EXPECT_EQ(shape.validate().size(), 2u);
}

TEST(ModelShape, DerivesOpenSizes) {
  ModelShape llama = defaults_for(Arch::kLlama);
  llama.hidden = 768;
  llama.num_heads = 12;
  derive_sizes(llama);
  EXPECT_EQ(llama.num_heads_kv, 12);
  EXPECT_EQ(llama.head_dim, 64);
  EXPECT_EQ(llama.ffn_hidden, 2048);
  ModelShape gpt2 = defaults_for(Arch::kGpt2);
  gpt2.hidden = 64;
  gpt2.num_heads = 4;
  derive_sizes(gpt2);
  EXPECT_EQ(gpt2.ffn_hidden, 256);
  gpt2.num_heads = 5;  // 64 is no multiple of 5: left for validate()
  gpt2.head_dim = 0;
  derive_sizes(gpt2);
  EXPECT_EQ(gpt2.head_dim, 0);
}

TEST(ModelShape, MoeLayerPattern) {
  ModelShape shape = shape_preset("mixtral-8x7b").value();
  EXPECT_TRUE(shape.is_moe_layer(0));
  shape.first_dense_layers = 1;
  shape.moe_every = 2;
  EXPECT_FALSE(shape.is_moe_layer(0));
  EXPECT_FALSE(shape.is_moe_layer(1));
  EXPECT_TRUE(shape.is_moe_layer(2));
  EXPECT_FALSE(shape.is_moe_layer(3));
}

}  // namespace
}  // namespace sx
