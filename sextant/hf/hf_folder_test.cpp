#include "sextant/hf/hf_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "sextant/hf/hf_writer.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

ModelShape tiny(bool tied = false) {
  ModelShape shape = defaults_for(Arch::kLlama);
  shape.num_layers = 1;
  shape.hidden = 8;
  shape.ffn_hidden = 8;
  shape.num_heads = 2;
  shape.vocab_size = 10;
  shape.max_positions = 16;
  shape.tie_embeddings = tied;
  derive_sizes(shape);
  return shape;
}

HfSource ones() {
  HfSource source;
  source.dtype = safetensors::Dtype::kBF16;
  source.read = [](const HfParam&, std::int64_t, std::int64_t count,
                   std::byte* to) -> Result<void> {
    std::memset(to, 1, static_cast<std::size_t>(count) * 2);
    return {};
  };
  return source;
}

void write_model(const fs::path& folder, bool tied = false, std::uint64_t shard_bytes = 1 << 30) {
  ASSERT_TRUE(write_hf_folder(folder, tiny(tied), ones(), {.shard_bytes = shard_bytes}).ok());
}

/// A safetensors file of zero bytes for these entries.
void write_tensors(const fs::path& path, std::vector<safetensors::Entry> entries, char fill = 1) {
  const auto layout = safetensors::plan_layout(std::move(entries), {}).value();
  std::uint64_t end = 0;
  for (const auto& entry : layout.header.entries) end = std::max(end, entry.end);
  ASSERT_TRUE(write_file_atomic(path, layout.head + std::string(end, fill)).ok());
}

void change_json(const fs::path& path, const std::function<void(Json&)>& change) {
  Json json = Json::parse(read_file(path).value());
  change(json);
  ASSERT_TRUE(write_file_atomic(path, json.dump()).ok());
}

Error error_of(const fs::path& folder) {
  const auto opened = HfFolder::open(folder);
  EXPECT_FALSE(opened.ok());
  return opened.ok() ? Error{} : opened.error();
}

/// Name of weight file `idx` of a folder, counted from 0.
std::string shard(const fs::path& folder, std::size_t idx) {
  return glob_files((folder / "model-*.safetensors").string()).value().at(idx).filename().string();
}

TEST(HfFolder, AbsentPartsAreNamed) {
  const TempDir dir;
  EXPECT_EQ(error_of(dir / "none").kind, ErrorKind::kNotFound);
  write_model(dir / "m");
  fs::remove(dir / "m" / "model.safetensors");
  EXPECT_THAT(error_of(dir / "m").message, HasSubstr("model.safetensors"));
  ASSERT_TRUE(write_file_atomic(dir / "m" / "pytorch_model.bin", "x").ok());
  EXPECT_EQ(error_of(dir / "m").kind, ErrorKind::kUnsupported);
  write_model(dir / "shards", false, 300);
  const std::string second = shard(dir / "shards", 1);
  fs::remove(dir / "shards" / second);
  const Error error = error_of(dir / "shards");
  EXPECT_EQ(error.kind, ErrorKind::kNotFound);
  EXPECT_THAT(error.to_string(), HasSubstr(second));
}

TEST(HfFolder, IndexThatLiesIsAnError) {
  const TempDir dir;
  const fs::path index = dir / "m" / "model.safetensors.index.json";
  write_model(dir / "m", false, 300);
  const std::string good = read_file(index).value(), first = shard(dir / "m", 0);
  const auto broken = [&](const std::string& text) {
    EXPECT_TRUE(write_file_atomic(index, text).ok());
    return error_of(dir / "m");
  };
  EXPECT_THAT(broken("{").where, HasSubstr("index.json"));
  EXPECT_THAT(broken("[]").message, HasSubstr("weight_map"));
  EXPECT_THAT(broken(R"({"weight_map":{}})").message, HasSubstr("empty"));
  EXPECT_THAT(broken(R"({"weight_map":{"a":7}})").message, HasSubstr("\"a\""));
  EXPECT_THAT(broken(R"({"weight_map":{"a":"../secret"}})").message, HasSubstr("\"a\""));
  EXPECT_THAT(broken(R"({"weight_map":{"a":"/etc/passwd"}})").message, HasSubstr("\"a\""));
  Json json = Json::parse(good);
  json["weight_map"]["extra.weight"] = first;
  EXPECT_THAT(broken(json.dump()).message, HasSubstr("extra.weight"));
  json = Json::parse(good);
  json["weight_map"].erase("model.norm.weight");
  EXPECT_THAT(broken(json.dump()).message, HasSubstr("not listed"));
  json = Json::parse(good);
  json["weight_map"]["model.norm.weight"] = first;
  EXPECT_THAT(broken(json.dump()).message, HasSubstr("model.norm.weight"));
}

TEST(HfFolder, AllDifferencesAreListedAtOnce) {
  const TempDir dir;
  write_model(dir / "m");
  change_json(dir / "m" / "config.json", [](Json& json) {
    json["num_hidden_layers"] = 2;
    json["vocab_size"] = 11;
    json["tie_word_embeddings"] = true;
  });
  const Error error = error_of(dir / "m");
  EXPECT_EQ(error.kind, ErrorKind::kInvalid);
  EXPECT_THAT(error.message, HasSubstr("missing: model.layers.1.input_layernorm.weight"));
  EXPECT_THAT(error.message, HasSubstr("model.embed_tokens.weight [10, 8], not [11, 8]"));
  write_tensors(dir / "m" / "model.safetensors", {{"odd", safetensors::Dtype::kF32, {1}}});
  EXPECT_THAT(error_of(dir / "m").message, HasSubstr("unexpected: odd"));
}

TEST(HfFolder, TiedHeadMayBeThereIfItIsEqual) {
  const TempDir dir;
  write_model(dir / "m", /*tied=*/true);
  std::vector<safetensors::Entry> entries =
      safetensors::File::open(dir / "m" / "model.safetensors").value().header().entries;
  entries.push_back({"lm_head.weight", safetensors::Dtype::kBF16, {10, 8}});
  entries.push_back(
      {"model.layers.0.self_attn.rotary_emb.inv_freq", safetensors::Dtype::kF32, {2}});
  write_tensors(dir / "m" / "model.safetensors", entries);
  EXPECT_TRUE(HfFolder::open(dir / "m").ok());
  std::string bytes = read_file(dir / "m" / "model.safetensors").value();
  const auto file = safetensors::File::open(dir / "m" / "model.safetensors").value();
  bytes[file.header().data_begin + file.find("lm_head.weight")->begin + 5] ^= 1;
  ASSERT_TRUE(write_file_atomic(dir / "m" / "model.safetensors", bytes).ok());
  EXPECT_THAT(error_of(dir / "m").message, HasSubstr("tie_word_embeddings"));
}

TEST(HfFolder, DtypesWithoutArithmeticAreRefused) {
  const TempDir dir;
  write_model(dir / "m");
  auto entries = safetensors::File::open(dir / "m" / "model.safetensors").value().header().entries;
  for (auto& entry : entries) {
    if (entry.name == "model.norm.weight") entry.dtype = safetensors::Dtype::kI16;
  }
  write_tensors(dir / "m" / "model.safetensors", entries);
  const Error error = error_of(dir / "m");
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(error.to_string(), HasSubstr("I16"));
}

TEST(HfFolder, NamesWithoutPrefixAreFound) {
  const TempDir dir;
  write_model(dir / "m", /*tied=*/true);
  auto entries = safetensors::File::open(dir / "m" / "model.safetensors").value().header().entries;
  for (auto& entry : entries) entry.name.erase(0, std::string("model.").size());
  write_tensors(dir / "m" / "model.safetensors", entries);
  const auto opened = HfFolder::open(dir / "m");
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  EXPECT_EQ(opened->find("norm.weight")->tensor, "norm.weight");
  EXPECT_EQ(opened->find("nothing"), nullptr);
}

// Every cut of the weight file is an error that names it.
TEST(HfFolder, TruncatedWeightsAreErrors) {
  const TempDir dir;
  write_model(dir / "m");
  const fs::path path = dir / "m" / "model.safetensors";
  const std::string whole = read_file(path).value();
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{7}, std::size_t{8}, whole.size() / 2, whole.size() - 1}) {
    ASSERT_TRUE(write_file_atomic(path, whole.substr(0, n)).ok());
    const Error error = error_of(dir / "m");
    EXPECT_EQ(error.kind, ErrorKind::kCorrupt) << n;
    EXPECT_THAT(error.where, HasSubstr("model.safetensors")) << n;
  }
}

}  // namespace
}  // namespace sx
