#include "sextant/shape/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sextant/base/fs.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

Json gpt2() {
  return Json::parse(R"({"model_type":"gpt2","n_embd":64,"n_layer":2,"n_head":4,"n_positions":128,
    "n_inner":null,"vocab_size":97,"activation_function":"gelu_new","layer_norm_epsilon":1e-05,
    "attn_pdrop":0.1,"summary_type":"cls_index","bos_token_id":50256,"dtype":"float32"})");
}

Json llama3() {
  return Json::parse(R"({"model_type":"llama","architectures":["LlamaForCausalLM"],
    "hidden_size":64,"intermediate_size":160,"num_hidden_layers":2,"num_attention_heads":4,
    "num_key_value_heads":2,"max_position_embeddings":256,"rms_norm_eps":1e-05,"vocab_size":97,
    "hidden_act":"silu","attention_bias":false,"mlp_bias":false,"rope_theta":500000.0,
    "rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
    "original_max_position_embeddings":64},"tie_word_embeddings":true,"torch_dtype":"bfloat16",
    "eos_token_id":[1,2],"pretraining_tp":1,"use_cache":true,"transformers_version":"4.45.0"})");
}

Result<HfConfig> parse(const Json& json) { return parse_hf_config(json.dump()); }

TEST(HfConfig, ReadsGpt2) {
  const HfConfig config = parse(gpt2()).value();
  const ModelShape& shape = config.shape;
  EXPECT_EQ(shape.arch, Arch::kGpt2);
  EXPECT_EQ(shape.hidden, 64);
  EXPECT_EQ(shape.ffn_hidden, 256);
  EXPECT_EQ(shape.head_dim, 16);
  EXPECT_EQ(shape.num_heads_kv, 4);
  EXPECT_EQ(shape.max_positions, 128);
  EXPECT_TRUE(shape.tie_embeddings);
  EXPECT_EQ(shape.positions, Positions::kLearned);
  EXPECT_EQ(config.dtype, "float32");
}

TEST(HfConfig, ReadsOldAndNewSpellingOfRope) {
  const HfConfig old = parse(llama3()).value();
  EXPECT_EQ(old.dtype, "bfloat16");
  EXPECT_EQ(old.shape.rope_theta, 500000.0);
  EXPECT_EQ(old.shape.rope_scaling.kind, RopeScalingKind::kLlama3);
  EXPECT_EQ(old.shape.rope_scaling.original_max_positions, 64);
  Json now = llama3();
  now["rope_parameters"] = now["rope_scaling"];
  now["rope_parameters"]["rope_theta"] = 500000.0;
  now.erase("rope_scaling");
  now.erase("rope_theta");
  now["dtype"] = now["torch_dtype"];
  now.erase("torch_dtype");
  EXPECT_EQ(parse(now).value().shape, old.shape);
  EXPECT_EQ(parse(now).value().dtype, "bfloat16");
  Json linear = llama3();
  linear["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  EXPECT_EQ(parse(linear).value().shape.rope_scaling.kind, RopeScalingKind::kLinear);
}

TEST(HfConfig, ReadsTheQwenFamily) {
  Json json = llama3();
  json.erase("attention_bias");
  json.erase("mlp_bias");
  json["model_type"] = "qwen2";
  json["rope_scaling"] = nullptr;
  json["use_sliding_window"] = false;
  json["sliding_window"] = 4096;
  json["max_window_layers"] = 21;
  const ModelShape two = parse(json).value().shape;
  EXPECT_TRUE(two.qkv_bias);
  EXPECT_FALSE(two.linear_bias);
  EXPECT_FALSE(two.qk_norm);
  json["model_type"] = "qwen3";
  json["head_dim"] = 32;
  json["layer_types"] = {"full_attention", "full_attention"};
  const ModelShape three = parse(json).value().shape;
  EXPECT_TRUE(three.qk_norm);
  EXPECT_FALSE(three.qkv_bias);
  EXPECT_EQ(three.head_dim, 32);
  json.erase("head_dim");
  EXPECT_EQ(parse(json).value().shape.head_dim, 128);  // this family's default, not hidden / heads
}

// A field that changes the mathematics and is not understood is an error by its name.
TEST(HfConfig, WhatIsNotBuiltIsRefusedByName) {
  const auto refused = [](Json json, const char* key, const Json& value) {
    json[key] = value;
    const auto config = parse(json);
    ASSERT_FALSE(config.ok()) << key;
    EXPECT_EQ(config.error().kind, ErrorKind::kUnsupported) << key;
    EXPECT_THAT(config.error().message, HasSubstr(std::string("config.json: ") + key)) << key;
  };
  refused(gpt2(), "model_type", "bert");
  refused(gpt2(), "activation_function", "tanh");
  refused(gpt2(), "scale_attn_weights", false);
  refused(gpt2(), "scale_attn_by_inverse_layer_idx", true);
  refused(gpt2(), "add_cross_attention", true);
  refused(gpt2(), "is_encoder_decoder", true);
  refused(gpt2(), "new_mathematics", 3);
  refused(llama3(), "quantization_config", {{"bits", 4}});
  refused(llama3(), "hidden_act", "relu2");
  refused(llama3(), "sliding_window", 4096);
  refused(llama3(), "attention_bias", true);
  refused(llama3(), "logit_scale", 0.5);
  refused(llama3(), "layer_types", Json::array({"full_attention", "sliding_attention"}));
  Json qwen = llama3();
  qwen["model_type"] = "qwen2";
  qwen.erase("attention_bias");
  qwen.erase("mlp_bias");
  refused(qwen, "use_sliding_window", true);
  for (const char* type : {"yarn", "dynamic", "longrope"}) {
    Json json = llama3();
    json["rope_scaling"]["rope_type"] = type;
    EXPECT_THAT(parse(json).error().message, HasSubstr("rope_scaling.rope_type")) << type;
  }
  Json inside = llama3();
  inside["rope_scaling"]["mscale"] = 1.0;
  EXPECT_THAT(parse(inside).error().message, HasSubstr("rope_scaling.mscale"));
  Json mistral = llama3();
  mistral["model_type"] = "mistral";
  mistral.erase("attention_bias");
  mistral.erase("mlp_bias");
  EXPECT_FALSE(parse(mistral).ok());  // left out, the window is 4096
  mistral["sliding_window"] = nullptr;
  EXPECT_TRUE(parse(mistral).ok());
}

TEST(HfConfig, WrongFilesAreErrorsWithTheField) {
  EXPECT_THAT(parse_hf_config("{").error().message, HasSubstr("config.json"));
  EXPECT_FALSE(parse_hf_config("[]").ok());
  EXPECT_FALSE(parse_hf_config("{\"model_type\":7}").ok());
  for (const char* key : {"hidden_size", "vocab_size", "num_hidden_layers", "intermediate_size",
                          "num_attention_heads", "max_position_embeddings"}) {
    Json json = llama3();
    json.erase(key);
    EXPECT_THAT(parse(json).error().message, HasSubstr(key));
    json[key] = "64";
    EXPECT_THAT(parse(json).error().message, HasSubstr("whole number")) << key;
    json[key] = -1;
    EXPECT_FALSE(parse(json).ok()) << key;
    json[key] = std::uint64_t{1} << 63;
    EXPECT_FALSE(parse(json).ok()) << key;
  }
  for (const char* key :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    Json json = llama3();
    json["rope_scaling"].erase(key);
    EXPECT_THAT(parse(json).error().message, HasSubstr(key));
  }
  Json heads = llama3();
  heads["num_key_value_heads"] = 3;
  EXPECT_THAT(parse(heads).error().message, HasSubstr("num_heads_kv"));
}

TEST(HfConfig, FormatIsReadBackAndKeepsOtherFields) {
  for (const Json& json : {gpt2(), llama3()}) {
    const HfConfig config = parse(json).value();
    const Json written = format_hf_config(config.shape, config.dtype, config.fields).value();
    ModelShape again = parse(written).value().shape;
    EXPECT_EQ(again, config.shape);
    EXPECT_EQ(written.at("torch_dtype"), config.dtype);
    for (const char* kept : {"bos_token_id", "eos_token_id"}) {
      EXPECT_EQ(written.contains(kept), json.contains(kept)) << kept;
    }
  }
}

TEST(HfConfig, FormatFindsTheFamilyOfAShape) {
  ModelShape shape = shape_preset("tiny").value();
  EXPECT_EQ(format_hf_config(shape, "float32").value().at("model_type"), "llama");
  shape.qkv_bias = true;
  EXPECT_EQ(format_hf_config(shape, "float32").value().at("model_type"), "qwen2");
  shape.qkv_bias = false;
  shape.qk_norm = true;
  EXPECT_EQ(format_hf_config(shape, "float32").value().at("model_type"), "qwen3");
  EXPECT_EQ(format_hf_config(shape_preset("gpt2-124m").value(), "float32").value().at("model_type"),
            "gpt2");
  shape.positions = Positions::kNone;
  EXPECT_EQ(format_hf_config(shape, "float32").error().kind, ErrorKind::kUnsupported);
}

TEST(HfConfig, FolderNamesTheFile) {
  const TempDir dir;
  EXPECT_EQ(read_hf_config(dir.path()).error().kind, ErrorKind::kNotFound);
  ASSERT_TRUE(write_file_atomic(dir / "config.json", "{}").ok());
  EXPECT_THAT(read_hf_config(dir.path()).error().where, HasSubstr("config.json"));
  ASSERT_TRUE(write_file_atomic(dir / "config.json", gpt2().dump()).ok());
  EXPECT_EQ(read_hf_config(dir.path()).value().shape.num_layers, 2);
}

}  // namespace
}  // namespace sx
