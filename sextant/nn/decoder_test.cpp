#include "sextant/nn/decoder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "sextant/base/check.h"
#include "sextant/nn/loss.h"
#include "sextant/nn/testing.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using testing::max_difference;

ModelShape read_shape(const nlohmann::json& m) {
  ModelShape s;
  s.arch = parse_arch(m["arch"].get<std::string>()).value();
  s.positions = parse_positions(m["positions"].get<std::string>()).value();
  s.norm = parse_norm(m["norm"].get<std::string>()).value();
  s.activation = parse_activation(m["activation"].get<std::string>()).value();
  s.num_layers = m["num_layers"];
  s.hidden = m["hidden"];
  s.ffn_hidden = m["ffn_hidden"];
  s.num_heads = m["num_heads"];
  s.num_heads_kv = m["num_heads_kv"];
  s.head_dim = m["head_dim"];
  s.vocab_size = m["vocab_size"];
  s.vocab_pad_to = m["vocab_pad_to"];
  s.max_positions = m["max_positions"];
  s.rope_theta = m["rope_theta"];
  s.norm_eps = m["norm_eps"];
  s.linear_bias = m["linear_bias"];
  s.qkv_bias = m["qkv_bias"];
  s.qk_norm = m["qk_norm"];
  s.tie_embeddings = m["tie_embeddings"];
  return s;
}

at::Tensor read_BS(const nlohmann::json& rows) {
  std::vector<std::int64_t> values;
  for (const auto& row : rows) {
    for (const auto& value : row) values.push_back(value);
  }
  const auto batch = static_cast<std::int64_t>(rows.size());
  return testing::long_tensor(values, {batch, static_cast<std::int64_t>(values.size()) / batch});
}

// tests/golden/reference/make_decoder_reference.py: another program's statement of the same models.
TEST(DecoderReference, LogitsAndLossAgree) {
  std::ifstream file(source_file("tests/golden/reference/decoder_reference.json"));
  const nlohmann::json reference = nlohmann::json::parse(file);
  ASSERT_GE(reference["cases"].size(), 7u);
  for (const auto& c : reference["cases"]) {
    const ModelShape shape = read_shape(c["model"]);
    std::vector<double> expected = c["logits"];
    const at::Tensor tokens = read_BS(c["tokens"]);
    const DecoderInput input{tokens, read_BS(c["positions"]),
                             read_BS(c["documents"]).to(c10::kInt)};
    for (const auto& [dtype, logit_bar, loss_bar] :
         {std::tuple{c10::kDouble, 1e-11, 1e-10}, std::tuple{c10::kFloat, 2e-4, 2e-3}}) {
      const auto model = testing::make_decoder(shape, dtype, reference["seed"]);
      const at::Tensor logits = model->forward(input).detach();
      ASSERT_EQ(logits.sizes(), (at::IntArrayRef{2, 9, 24}));
      const at::Tensor real = logits.narrow(2, 0, shape.vocab_size).to(c10::kDouble).contiguous();
      const auto* have = real.const_data_ptr<double>();
      double worst = 0;
      for (std::size_t i = 0; i < expected.size(); ++i)
        worst = std::max(worst, std::abs(have[i] - expected[i]));
      EXPECT_LT(worst, logit_bar) << c["name"];
      const at::Tensor loss =
          cross_entropy_sum(logits, read_BS(c["targets"]), read_BS(c["mask"]), shape.vocab_size);
      EXPECT_NEAR(loss.item<double>(), c["loss_sum"].get<double>(), loss_bar) << c["name"];
    }
  }
}

// A later token changes nothing before it. In fp64 the cut changes the shape of the products, hence
// the tolerance.
TEST(Decoder, PrefixDoesNotDependOnWhatFollows) {
  for (const ModelShape& shape : {testing::tiny_llama(), testing::tiny_gpt2()}) {
    const auto model = testing::make_decoder(shape, c10::kDouble);
    const at::Tensor tokens = testing::random_tokens("prefix", 2, 12, 19);
    const at::Tensor whole = model->forward({tokens, {}, {}}).detach();
    at::Tensor changed = tokens.clone();
    changed.narrow(1, 7, 5).fill_(3);
    const at::Tensor other = model->forward({changed, {}, {}}).detach();
    EXPECT_TRUE(at::equal(whole.narrow(1, 0, 7), other.narrow(1, 0, 7)));
    EXPECT_GT(max_difference(whole.narrow(1, 7, 5), other.narrow(1, 7, 5)), 1e-3);
    const at::Tensor prefix = model->forward({tokens.narrow(1, 0, 5), {}, {}}).detach();
    EXPECT_LT(max_difference(whole.narrow(1, 0, 5), prefix), 1e-12);
  }
}

// Documents packed into one row are worth what they are alone.
TEST(Decoder, PackedDocumentsEqualSeparateOnes) {
  for (const ModelShape& shape : {testing::tiny_llama(), testing::tiny_gpt2()}) {
    const auto model = testing::make_decoder(shape, c10::kDouble);
    const std::vector<std::int64_t> lengths = {1, 6, 4};
    std::vector<at::Tensor> alone, logits;
    std::vector<std::int64_t> positions, documents;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      alone.push_back(testing::random_tokens("document" + std::to_string(i), 1, lengths[i], 19));
      logits.push_back(model->forward({alone.back(), {}, {}}).detach());
      for (std::int64_t p = 0; p < lengths[i]; ++p) {
        positions.push_back(p);
        documents.push_back(static_cast<std::int64_t>(i));
      }
    }
    const at::Tensor packed =
        model
            ->forward({at::cat(alone, 1), testing::long_tensor(positions, {1, 11}),
                       testing::long_tensor(documents, {1, 11})})
            .detach();
    EXPECT_LT(max_difference(packed, at::cat(logits, 1)), 1e-12);
  }
}

TEST(Decoder, CacheGivesTheSameLogits) {
  const at::NoGradGuard no_grad;
  for (const ModelShape& shape : {testing::tiny_llama(), testing::tiny_gpt2()}) {
    const auto model = testing::make_decoder(shape, c10::kDouble);
    const at::Tensor tokens = testing::random_tokens("cache", 2, 14, 19);
    const at::Tensor whole = model->forward({tokens, {}, {}});
    KvCache cache(shape, 2, 14, c10::kDouble);
    std::vector<at::Tensor> parts;
    std::int64_t start = 0;
    for (const std::int64_t length : {5, 1, 1, 4, 3}) {  // prompt, single tokens, blocks
      parts.push_back(model->forward({tokens.narrow(1, start, length), {}, {}}, &cache));
      start += length;
    }
    EXPECT_EQ(cache.length(), 14);
    EXPECT_LT(max_difference(whole, at::cat(parts, 1)), 1e-12);
    EXPECT_THROW(model->forward({tokens.narrow(1, 0, 1), {}, {}}, &cache), ContractError);
    const at::Tensor last = model->last_logits({tokens, {}, {}});
    EXPECT_LT(max_difference(last, whole.select(1, 13)), 1e-12);
  }
}

TEST(Decoder, NarrowComputeDtypeStaysNearAndGivesWideGradients) {
  const ModelShape shape = testing::tiny_llama();
  const auto wide = testing::make_decoder(shape, c10::kFloat);
  const auto narrow =
      testing::make_decoder(shape, c10::kFloat, 42, {.compute_dtype = c10::kBFloat16});
  const at::Tensor tokens = testing::random_tokens("narrow", 2, 8, 19);
  const at::Tensor logits = narrow->forward({tokens, {}, {}});
  EXPECT_EQ(logits.scalar_type(), c10::kBFloat16);
  const double spread = wide->forward({tokens, {}, {}}).abs().max().item<double>();
  EXPECT_LT(max_difference(logits, wide->forward({tokens, {}, {}})), 0.05 * spread);
  const at::Tensor loss = cross_entropy_sum(logits, tokens, {}, 19);
  EXPECT_EQ(loss.scalar_type(), c10::kFloat);
  loss.backward();
  for (const Parameter* parameter : narrow->parameters()) {
    ASSERT_TRUE(parameter->tensor.grad().defined()) << parameter->fqn;
    EXPECT_EQ(parameter->tensor.grad().scalar_type(), c10::kFloat) << parameter->fqn;
  }
}

TEST(Decoder, RefusesWrongInput) {
  const auto model = testing::make_decoder(testing::tiny_llama(), c10::kFloat);
  EXPECT_THROW(model->forward({testing::random_tokens("long", 1, 33, 19), {}, {}}), ContractError);
  EXPECT_THROW(model->forward({testing::long_tensor({}, {1, 0}), {}, {}}), ContractError);
  KvCache cache(testing::tiny_llama(), 1, 8, c10::kFloat);
  EXPECT_THROW(model->forward({testing::random_tokens("grad", 1, 3, 19), {}, {}}, &cache),
               ContractError);
}

}  // namespace
}  // namespace sx
