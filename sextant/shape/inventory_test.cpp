// Known answers: published parameter counts, and the closed forms of GPT-2 and Llama.
#include "sextant/shape/inventory.h"

#include <gtest/gtest.h>

#include <set>

#include "sextant/base/check.h"

namespace sx {
namespace {

ModelShape preset(const char* name) { return shape_preset(name).value(); }

TEST(Inventory, PublishedParameterCounts) {
  const std::pair<const char*, std::int64_t> known[] = {
      {"gpt2-124m", 124'439'808},           {"gpt2-350m", 354'823'168},
      {"gpt2-774m", 774'030'080},           {"gpt2-1.5b", 1'557'611'200},
      {"llama2-7b", 6'738'415'616},         {"llama3-1b", 1'235'814'400},
      {"llama3-8b", 8'030'261'248},         {"llama3-70b", 70'553'706'496},
      {"llama3-405b", 405'853'388'800},     {"mixtral-8x7b", 46'702'792'704},
      {"qwen3-30b-a3b", 30'532'122'624},    {"nanotron-llama-1b", 1'342'244'864},
      {"nanotron-llama-8b", 8'858'636'288}, {"cs336-small", 128'625'408},
      {"cs336-medium", 423'183'360},        {"cs336-large", 969'411'840},
      {"cs336-xl", 3'406'809'600},          {"cs336-10b", 12'832'823'808},
  };
  for (const auto& [name, count] : known) EXPECT_EQ(num_params(preset(name)), count) << name;
}

TEST(Inventory, CountsOfVariants) {
  ModelShape gpt2 = preset("gpt2-124m");
  gpt2.vocab_size = 50'304;
  EXPECT_EQ(num_params(gpt2), 124'475'904);
  ModelShape nanotron = preset("nanotron-llama-1b");
  EXPECT_EQ(num_params_matrices(nanotron), 1'342'177'280);
  nanotron.tie_embeddings = false;
  EXPECT_EQ(num_params(nanotron), 1'610'680'320);
  EXPECT_EQ(num_params_matrices(preset("nanotron-llama-8b")), 8'858'370'048);
  EXPECT_EQ(num_params_active(preset("mixtral-8x7b")), 12'879'925'248);
  EXPECT_EQ(num_params_active(preset("qwen3-30b-a3b")), 3'353'032'704);
  ModelShape leaderboard = defaults_for(Arch::kLlama);
  leaderboard.num_layers = 34;
  leaderboard.hidden = 4096;
  leaderboard.ffn_hidden = 11'008;
  leaderboard.num_heads = 32;
  leaderboard.vocab_size = 151'936;
  leaderboard.max_positions = 1024;
  derive_sizes(leaderboard);
  EXPECT_EQ(num_params(leaderboard), 8'125'698'048);
}

TEST(Inventory, ClosedForms) {
  for (const std::int64_t layers : {1, 3, 7}) {
    for (const std::int64_t hidden : {8, 24, 64}) {
      ModelShape s = defaults_for(Arch::kGpt2);
      s.num_layers = layers;
      s.hidden = hidden;
      s.num_heads = 4;
      s.vocab_size = 101;
      s.max_positions = 13;
      derive_sizes(s);
      const std::int64_t h = hidden;
      EXPECT_EQ(num_params(s), 101 * h + 13 * h + layers * (12 * h * h + 13 * h) + 2 * h);

      ModelShape l = defaults_for(Arch::kLlama);
      l.num_layers = layers;
      l.hidden = hidden;
      l.num_heads = 6;
      l.num_heads_kv = 2;
      l.head_dim = 10;
      l.ffn_hidden = 17;
      l.vocab_size = 101;
      l.max_positions = 13;
      const std::int64_t untied =
          2 * 101 * h + layers * (2 * h * 60 + 2 * h * 20 + 3 * h * 17 + 2 * h) + h;
      EXPECT_EQ(num_params(l), untied);
      l.tie_embeddings = true;
      EXPECT_EQ(num_params(l), untied - 101 * h);
    }
  }
}

TEST(Inventory, FlopsKnownAnswers) {
  struct Known {
    const char* name;
    std::int64_t seq_len, matmul;
    double six_m, full, causal;
  };
  const Known known[] = {
      {"gpt2-124m", 1024, 123'532'032, 741'192'192, 113'246'208, 56'623'104},
      {"nanotron-llama-1b", 4096, 1'342'177'280, 8'053'063'680, 1'610'612'736, 805'306'368},
      {"nanotron-llama-8b", 4096, 8'321'499'136, 49'928'994'816, 6'442'450'944, 3'221'225'472},
      {"llama3-8b", 8192, 7'504'658'432, 45'027'950'592, 12'884'901'888, 6'442'450'944},
      {"llama3-405b", 8192, 403'747'897'344, 2'422'487'384'064, 202'937'204'736, 101'468'602'368},
  };
  for (const Known& k : known) {
    const ModelShape shape = preset(k.name);
    EXPECT_EQ(num_params_matmul(shape), k.matmul) << k.name;
    EXPECT_EQ(attention_flops_per_token(shape, k.seq_len), k.full) << k.name;
    EXPECT_EQ(model_flops_per_token(shape, k.seq_len), k.six_m + k.full) << k.name;
    EXPECT_EQ(model_flops_causal_per_token(shape, k.seq_len), k.six_m + k.causal) << k.name;
  }
}

// Narayanan et al., arXiv 2104.04473, eq. 3 without recompute: 72 B S L H^2 (1 + S/(6H) + V/(12LH))
// per batch.
TEST(Inventory, FlopsAgreeWithMegatronFormula) {
  const ModelShape s = preset("gpt2-1.5b");
  const double h = 1600, l = 48, v = 50257, seq = 1024;
  const double per_token = 72 * l * h * h * (1 + seq / (6 * h) + v / (12 * l * h));
  EXPECT_DOUBLE_EQ(model_flops_per_token(s, 1024), per_token);
}

TEST(Inventory, NamesAreThoseOfTheCheckpoint) {
  std::vector<std::string> names;
  for (const ParamInfo& info : inventory(preset("tiny"))) {
    if (info.layer_idx <= 0) names.push_back(info.name);
  }
  const std::vector<std::string> expected = {"tok_embeddings.weight",
                                             "layers.0.attention_norm.weight",
                                             "layers.0.attention.wq.weight",
                                             "layers.0.attention.wk.weight",
                                             "layers.0.attention.wv.weight",
                                             "layers.0.attention.wo.weight",
                                             "layers.0.ffn_norm.weight",
                                             "layers.0.feed_forward.gate.weight",
                                             "layers.0.feed_forward.up.weight",
                                             "layers.0.feed_forward.down.weight",
                                             "norm.weight"};
  EXPECT_EQ(names, expected);
}

TEST(Inventory, VocabularyRowsArePaddedAndNamesUnique) {
  const ModelShape gpt2 = preset("gpt2-124m");
  EXPECT_EQ(gpt2.padded_vocab(), 50'304);
  EXPECT_EQ(inventory(gpt2).front().global_shape, (std::vector<std::int64_t>{50'304, 768}));
  EXPECT_EQ(inventory(gpt2, VocabRows::kReal).front().global_shape[0], 50'257);
  for (const std::string& name : shape_preset_names()) {
    std::set<std::string> seen;
    for (const ParamInfo& info : inventory(preset(name.c_str()))) {
      EXPECT_TRUE(seen.insert(info.name).second) << name << " " << info.name;
      const bool norm_or_bias = info.role == ParamRole::kNorm || info.name.ends_with(".bias");
      EXPECT_EQ(info.decay, !norm_or_bias) << info.name;
    }
  }
}

TEST(Inventory, RefusesAFaultyShape) { EXPECT_THROW(inventory(ModelShape{}), ContractError); }

}  // namespace
}  // namespace sx
