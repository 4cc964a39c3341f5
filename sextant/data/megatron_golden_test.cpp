// Files, orders, samples and caches that megatron-core 0.19.2 wrote.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sextant/base/fs.h"
#include "sextant/data/blend_megatron.h"
#include "sextant/data/gpt_dataset.h"
#include "sextant/data/md5.h"
#include "sextant/data/megatron_dataset.h"
#include "sextant/data/megatron_testing.h"
#include "sextant/data/python_json.h"
#include "tests/support/sha256.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using GoldenJson = nlohmann::ordered_json;

GoldenJson recorded(const char* name) {
  return GoldenJson::parse(read_file(test_data(std::string("megatron/") + name)).value());
}

std::string bytes16(std::string_view bytes) { return sha256_hex(bytes).substr(0, 16); }

/// Type, shape, hash and the first values of an array.
void expect_array(const NpyArray& array, const GoldenJson& row) {
  EXPECT_EQ(to_string(array.type()), row["dtype"].get<std::string>());
  EXPECT_EQ(array.rows(), row["shape"][0].get<std::uint64_t>());
  EXPECT_EQ(bytes16(array.bytes()), row["sha256_16"].get<std::string>());
  std::uint64_t i = 0;
  const GoldenJson values = (row.contains("values") ? row["values"] : row["first"]).flatten();
  for (const auto& value : values) EXPECT_EQ(array[i++], value.get<std::int64_t>());
}

std::size_t split_number(const std::string& name) {
  return name == "train" ? 0 : name == "valid" ? 1 : 2;
}

TEST(MegatronGolden, IndexArraysAndAllSamples) {
  const GoldenJson file = recorded("gpt.json");
  ASSERT_EQ(file["cases"].size(), 18u);
  for (const GoldenJson& one : file["cases"]) {
    const auto prefix = one["prefix"].get<std::string>();
    SCOPED_TRACE(prefix + " " + one["split"].get<std::string>() + " " +
                 one["which"].get<std::string>());
    const auto sequences =
        make_indexed_sequences(IndexedDataset::open(test_data("megatron/" + prefix)).value())
            .value();
    const std::size_t s = split_number(one["which"]);
    const MegatronSplit split = parse_megatron_split(one["split"].get<std::string>()).value();
    const auto [first, last] = split.range(s, sequences->lengths().size());
    EXPECT_EQ(first, one["sequences"][0].get<std::uint64_t>());
    EXPECT_EQ(last, one["sequences"][1].get<std::uint64_t>() + 1);
    EXPECT_EQ(python_json(split.matrix_json()), python_json(one["split_matrix"]));
    GptDataset::Options options{.path = prefix, .split = one["which"]};
    options.spec = {.first_sequence = first,
                    .last_sequence = last,
                    .num_samples = {},
                    .seq_len = one["sequence_length"],
                    .seed = one["seed"],
                    .extra_token = one["add_extra_token"],
                    .drop_last = one["drop_last"]};
    if (!one["num_samples"].is_null()) options.spec.num_samples = one["num_samples"];
    const auto dataset = GptDataset::open(sequences, options).value();
    EXPECT_EQ(dataset->counts().tokens_per_epoch, one["tokens_per_epoch"].get<std::uint64_t>());
    EXPECT_EQ(dataset->counts().epochs, one["epochs"].get<std::uint64_t>());
    EXPECT_EQ(dataset->counts().separate_final_epoch, one["separate_final_epoch"].get<bool>());
    ASSERT_EQ(dataset->size(), one["length"].get<std::uint64_t>());
    expect_array(dataset->index().document_index, one["document_index"]);
    expect_array(dataset->index().sample_index, one["sample_index"]);
    expect_array(dataset->index().shuffle_index, one["shuffle_index"]);
    std::vector<std::int64_t> all;
    for (std::uint64_t k = 0; k < dataset->size(); ++k) {
      const auto tokens = testing::padded_sample(*dataset, k, one["pad"]);
      all.insert(all.end(), tokens.begin(), tokens.end());
      if (k < one["samples"].size()) {
        EXPECT_EQ(tokens, one["samples"][k].get<std::vector<std::int64_t>>()) << "sample " << k;
      }
    }
    EXPECT_EQ(sha256_16(all), one["all_samples_sha256_16"].get<std::string>());
    EXPECT_TRUE(
        check_gpt_index(dataset->index(), sequences->lengths(), options.spec, dataset->counts())
            .ok());
  }
}

TEST(MegatronGolden, Blends) {
  const GoldenJson file = recorded("blends.json");
  ASSERT_EQ(file["cases"].size(), 18u);
  for (const GoldenJson& one : file["cases"]) {
    std::vector<double> weights;
    if (one.contains("given")) {
      weights = numpy_normalize(one["given"].get<std::vector<double>>());
      for (std::size_t i = 0; i < weights.size(); ++i) {
        EXPECT_EQ(weights[i], std::strtod(one["weights"][i].get<std::string>().c_str(), nullptr));
      }
    }
    const auto make = [&](BlendRounding rounding) {
      return one["kind"] == "greedy"
                 ? blend_greedy(weights, one["size"], rounding).value()
                 : blend_exhaustive(one["sizes"].get<std::vector<std::uint64_t>>(), rounding)
                       .value();
    };
    const MegatronBlendIndex made = make(BlendRounding::kSeparate);
    const auto counts = one["counts"].get<std::vector<std::uint64_t>>();
    EXPECT_EQ(made.counts(counts.size()), counts);
    expect_array(NpyArray::from(made.dataset_index), one["dataset_index"]);
    expect_array(NpyArray::from(made.dataset_sample_index), one["dataset_sample_index"]);
    ASSERT_TRUE(one.contains("with_fma"));
    const MegatronBlendIndex fused = make(BlendRounding::kFused);
    EXPECT_EQ(sha256_16(fused.dataset_index),
              one["with_fma"]["dataset_index_sha256_16"].get<std::string>());
    EXPECT_EQ(sha256_16(fused.dataset_sample_index),
              one["with_fma"]["dataset_sample_index_sha256_16"].get<std::string>());
  }
}

TEST(MegatronGolden, SplitsAndDataPaths) {
  const GoldenJson file = recorded("splits.json");
  ASSERT_EQ(file["cases"].size(), 16u);
  for (const GoldenJson& one : file["cases"]) {
    if (one.contains("split")) {
      const MegatronSplit split = parse_megatron_split(one["split"].get<std::string>()).value();
      EXPECT_EQ(std::vector<double>(split.vector.begin(), split.vector.end()),
                one["vector"].get<std::vector<double>>());
      EXPECT_EQ(python_json(split.matrix_json()), python_json(one["matrix"]));
      continue;
    }
    const MegatronBlend blend =
        parse_data_path(one["data_path"].get<std::vector<std::string>>()).value();
    EXPECT_EQ(blend.paths, one["blend"][0].get<std::vector<std::string>>());
    ASSERT_EQ(blend.weights.has_value(), !one["blend"][1].is_null());
    if (!blend.weights) continue;
    for (std::size_t i = 0; i < blend.weights->size(); ++i) {
      const GoldenJson& weight = one["blend"][1][i];
      if (weight.is_string()) {
        EXPECT_TRUE(std::isnan((*blend.weights)[i]));
      } else {
        EXPECT_EQ((*blend.weights)[i], weight.get<double>());
      }
    }
  }
}

MegatronBlend blend_of(const GoldenJson& json) {
  MegatronBlend blend{json[0].get<std::vector<std::string>>(), std::nullopt};
  if (!json[1].is_null()) blend.weights = json[1].get<std::vector<double>>();
  return blend;
}

/// What the recorded builder was told; prefixes are relative to its folder.
MegatronConfig config_of(const GoldenJson& one, const GoldenJson& tokenizer) {
  MegatronConfig config;
  config.seed = one["seed"];
  config.seq_len = one["sequence_length"];
  config.tokenizer = tokenizer;
  if (one["blend_per_split"].is_null()) {
    config.blend = blend_of(one["blend"]);
    config.split = one["split"];
  } else {
    config.per_split.emplace();
    for (std::size_t s = 0; s < 3; ++s) {
      if (!one["blend_per_split"][s].is_null()) {
        (*config.per_split)[s] = blend_of(one["blend_per_split"][s]);
      }
    }
  }
  return config;
}

/// Works in the folder of the recorded files.
class AmongTheFiles : public ::testing::Test {
 protected:
  void SetUp() override { fs::current_path(test_data("megatron")); }
  void TearDown() override { fs::current_path(before_); }
  fs::path before_ = fs::current_path();
};
class MegatronBuilderGolden : public AmongTheFiles {};

TEST_F(MegatronBuilderGolden, DescriptionsArraysAndFiles) {
  const GoldenJson file = recorded("builder.json");
  ASSERT_EQ(file["cases"].size(), 7u);
  for (const GoldenJson& one : file["cases"]) {
    const TempDir cache;
    MegatronConfig config = config_of(one, file["tokenizer"]);
    config.cache = cache.path();
    std::array<std::optional<std::uint64_t>, 3> sizes;
    for (std::size_t s = 0; s < 3; ++s) {
      if (!one["sizes"][s].is_null()) sizes[s] = one["sizes"][s].get<std::uint64_t>();
    }
    const MegatronSplits splits = open_megatron_datasets(config, sizes).value();
    for (const auto& [name, row] : one["splits"].items()) {
      SCOPED_TRACE(one["name"].get<std::string>() + ", " + name);
      const MegatronDataset& dataset = *splits[split_number(name)];
      ASSERT_EQ(dataset.size(), row["length"].get<std::uint64_t>());
      EXPECT_EQ(dataset.description(), row["description"].get<std::string>());
      const auto md5 = row["description_md5"].get<std::string>();
      EXPECT_EQ(md5_hex(dataset.description()), md5);
      ASSERT_EQ(dataset.members().size(), row["members"].size());
      for (std::size_t i = 0; i < row["members"].size(); ++i) {
        const GptDataset& member = *dataset.members()[i];
        const GoldenJson& expected = row["members"][i];
        EXPECT_EQ(member.options().path, expected["path"].get<std::string>());
        EXPECT_EQ(member.options().spec.num_samples.has_value(), !expected["requested"].is_null());
        if (!expected["requested"].is_null()) {
          EXPECT_EQ(*member.options().spec.num_samples, expected["requested"].get<std::uint64_t>());
        }
        EXPECT_EQ(member.size(), expected["length"].get<std::uint64_t>());
        EXPECT_EQ(bytes16(member.index().document_index.bytes()),
                  expected["document_index_sha256_16"].get<std::string>());
        EXPECT_EQ(bytes16(member.index().sample_index.bytes()),
                  expected["sample_index_sha256_16"].get<std::string>());
        EXPECT_EQ(bytes16(member.index().shuffle_index.bytes()),
                  expected["shuffle_index_sha256_16"].get<std::string>());
        EXPECT_EQ(md5_hex(python_json(member.options().identity)),
                  expected["description_md5"].get<std::string>());
      }
      if (dataset.blended()) {
        expect_array(dataset.dataset_index(), row["dataset_index"]);
        expect_array(dataset.dataset_sample_index(), row["dataset_sample_index"]);
      }
      for (const auto& [ending, expected] : row["files"].items()) {
        const std::string bytes = read_file(cache / (md5 + "-" + ending)).value();
        EXPECT_EQ(bytes.size(), expected[0].get<std::size_t>()) << ending;
        EXPECT_EQ(bytes16(bytes), expected[1].get<std::string>()) << ending;
      }
      for (std::uint64_t k = 0; k < row["first_token_of_samples"].size(); ++k) {
        const MegatronDataset::Place place = dataset.at(k).value();
        const auto tokens =
            testing::padded_sample(*dataset.members()[place.member], place.sample, 0);
        EXPECT_EQ(tokens[0], row["first_token_of_samples"][k].get<std::int64_t>()) << k;
      }
    }
  }
}

/// A copy of the recorded cache that may be written to.
void copy_cache(const fs::path& to) {
  for (const auto& entry : fs::directory_iterator(test_data("megatron/cache"))) {
    const fs::path file = to / entry.path().filename();
    fs::copy_file(entry.path(), file);
    fs::permissions(file, fs::perms::owner_write, fs::perm_options::add);
  }
}

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_file(entry.path()).value();
  }
  return files;
}

TEST_F(MegatronBuilderGolden, ACacheOfTheirsIsReadAndLeftAsItIs) {
  const GoldenJson file = recorded("builder.json");
  MegatronConfig config = config_of(file["cases"][0], file["tokenizer"]);
  const TempDir cache;
  copy_cache(cache.path());
  const auto before = files_of(cache.path());
  ASSERT_EQ(before.size(), 15u);
  config.cache = cache.path();
  const std::array<std::optional<std::uint64_t>, 3> sizes{200, 20, 2};
  const auto splits = open_megatron_datasets(config, sizes, {false, false, true}).value();
  EXPECT_EQ(splits[2]->size(), 3u);
  EXPECT_EQ(files_of(cache.path()), before);

  // Another tokenizer's cache serves as well: arrays depend on lengths only.
  config.tokenizer = {{"class", "Another"}};
  ASSERT_TRUE(open_megatron_datasets(config, sizes, {false, false, true}).ok());
  EXPECT_EQ(files_of(cache.path()), before);

  // Built from nothing, every file has their name and bytes.
  const TempDir own;
  config.tokenizer = file["tokenizer"];
  config.cache = own.path();
  ASSERT_TRUE(open_megatron_datasets(config, sizes, {false, false, true}).ok());
  const auto made = files_of(own.path());
  for (const auto& [name, bytes] : before) {
    ASSERT_TRUE(made.contains(name)) << name;
    EXPECT_EQ(made.at(name), bytes) << name;
  }
}

TEST_F(MegatronBuilderGolden, StaleCutAndForeignCachesAreMadeAnew) {
  const GoldenJson file = recorded("builder.json");
  MegatronConfig config = config_of(file["cases"][0], file["tokenizer"]);
  const std::array<std::optional<std::uint64_t>, 3> sizes{200, 20, 2};
  const std::array<bool, 3> test_only{false, false, true};
  const auto good = open_megatron_datasets(
                        [&] {
                          MegatronConfig plain = config;
                          plain.use_cache = false;
                          return plain;
                        }(),
                        sizes, test_only)
                        .value()[2];
  const auto expect_good = [&](const char* what) {
    const auto again = open_megatron_datasets(config, sizes, test_only).value()[2];
    for (std::size_t i = 0; i < 3; ++i) {
      const GptIndex& index = again->members()[i]->index();
      EXPECT_EQ(index.sample_index.bytes(), good->members()[i]->index().sample_index.bytes())
          << what;
      EXPECT_EQ(index.document_index.bytes(), good->members()[i]->index().document_index.bytes())
          << what;
      EXPECT_EQ(index.shuffle_index.bytes(), good->members()[i]->index().shuffle_index.bytes())
          << what;
    }
    EXPECT_EQ(again->dataset_index().bytes(), good->dataset_index().bytes()) << what;
  };
  for (const auto& [name, bytes] : files_of(test_data("megatron/cache"))) {
    if (!name.ends_with(".npy")) continue;
    for (const std::size_t keep :
         {std::size_t{0}, std::size_t{9}, std::size_t{100}, bytes.size() - 1}) {
      const TempDir cache;
      copy_cache(cache.path());
      config.cache = cache.path();
      fs::resize_file(cache / name, keep);
      expect_good(name.c_str());
      expect_good(name.c_str());  // and the new one is whole
    }
    if (name.find("shuffle") != std::string::npos || name.find("Blended") != std::string::npos)
      continue;
    const TempDir cache;  // one bit of an array whose every entry can be checked
    copy_cache(cache.path());
    config.cache = cache.path();
    std::string wrong = bytes;
    wrong.back() ^= 1;
    ASSERT_TRUE(write_file_atomic(cache / name, wrong).ok());
    expect_good(name.c_str());
  }
  // Arrays of our own are hashed: a bit anywhere is seen.
  const TempDir cache;
  config.cache = cache.path();
  expect_good("own");
  for (const auto& [name, bytes] : files_of(cache.path())) {
    if (!name.ends_with(".npy")) continue;
    std::string wrong = bytes;
    wrong[wrong.size() - 2] ^= 2;
    ASSERT_TRUE(write_file_atomic(cache / name, wrong).ok());
    expect_good(name.c_str());
    EXPECT_EQ(read_file(cache / name).value(), bytes);
  }
  // Their cache made without the extra token does not pass for one with it.
  const TempDir foreign;
  config.cache = foreign.path();
  config.extra_token = false;
  ASSERT_TRUE(open_megatron_datasets(config, sizes, test_only).ok());
  for (const auto& [name, bytes] : files_of(foreign.path())) {
    if (name.ends_with("sextant.json")) fs::remove(foreign / name);
  }
  config.extra_token = true;
  expect_good("without the extra token");
}

}  // namespace
}  // namespace sx
