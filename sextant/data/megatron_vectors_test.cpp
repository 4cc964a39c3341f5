// Orders of megatron-core 0.19.2 for inputs that a formula gives: no file is needed.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "sextant/base/fs.h"
#include "sextant/data/blend_megatron.h"
#include "sextant/data/gpt_dataset.h"
#include "sextant/data/indexed_writer.h"
#include "sextant/data/md5.h"
#include "sextant/data/megatron_dataset.h"
#include "sextant/data/megatron_testing.h"
#include "sextant/data/numpy_random.h"
#include "sextant/data/python_json.h"
#include "tests/support/sha256.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

std::string sha16(std::string_view bytes) { return sha256_hex(bytes).substr(0, 16); }

/// Works in another folder while it lives: paths of a cache's description are relative.
class InFolder {
 public:
  explicit InFolder(const fs::path& folder) : before_(fs::current_path()) {
    fs::current_path(folder);
  }
  ~InFolder() { fs::current_path(before_); }

 private:
  fs::path before_;
};

/// Files gd/f0, gd/f1, gd/f2 of 200, 250, 300 documents in the working folder.
void write_formula_files() {
  ASSERT_TRUE(make_dirs("gd").ok());
  for (int k = 0; k < 3; ++k) {
    auto writer =
        IndexedWriter::create("gd/f" + std::to_string(k), token_type_for_vocab(1000)).value();
    for (int i = 0; i < 200 + 50 * k; ++i) {
      std::vector<std::int32_t> tokens;
      for (int j = 0; j < 1 + (37 * i + 11 * k) % 97; ++j) {
        tokens.push_back(1 + (131 * i + 17 * j + 7 * k) % 999);
      }
      ASSERT_TRUE(writer.add_document(tokens).ok());
    }
    ASSERT_TRUE(writer.finish().ok());
  }
}

TEST(NumpyRandom, ShufflesAsRandomStateDoes) {
  NumpyRandom random(1234);
  std::vector<std::int32_t> first(1000);
  for (std::int32_t i = 0; i < 1000; ++i) first[static_cast<std::size_t>(i)] = i;
  random.shuffle(first);
  EXPECT_EQ(std::vector<std::int32_t>(first.begin(), first.begin() + 3),
            (std::vector<std::int32_t>{681, 990, 155}));
  std::vector<std::uint32_t> second(777);
  for (std::uint32_t i = 0; i < 777; ++i) second[i] = i;
  random.shuffle(second);
  EXPECT_EQ(std::vector<std::uint32_t>(second.begin(), second.begin() + 3),
            (std::vector<std::uint32_t>{632, 322, 14}));
}

TEST(NumpyRandom, IntervalsReachBothEndsAndTakeTwoWordsBeyond32Bits) {
  NumpyRandom random(7), words(7);
  EXPECT_EQ(random.interval(0), 0u);  // takes no word
  EXPECT_EQ(random.interval(0xffffffffu), words.u32());
  const std::uint64_t high = words.u32();
  EXPECT_EQ(random.interval(~std::uint64_t{0}), high << 32 | words.u32());
  bool low = false, top = false;
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t value = random.interval(2);
    EXPECT_LE(value, 2u);
    low = low || value == 0;
    top = top || value == 2;
  }
  EXPECT_TRUE(low && top);
}

TEST(Md5, GivesTheRfcsValues) {
  EXPECT_EQ(md5_hex(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5_hex("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(md5_hex("1234567890123456789012345678901234567890123456789012345678901234567890123456"
                    "7890"),
            "57edf4a22be3c955ac49da2e2107b67a");
}

TEST(PythonJson, WritesFloatsAndTextAsPythonDoes) {
  EXPECT_EQ(python_float(1e-05), "1e-05");
  EXPECT_EQ(python_float(0.0001), "0.0001");
  EXPECT_EQ(python_float(1e16), "1e+16");
  EXPECT_EQ(python_float(1e15), "1000000000000000.0");
  EXPECT_EQ(python_float(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(python_float(-1234.5), "-1234.5");
  EXPECT_EQ(python_float(0.0), "0.0");
  EXPECT_EQ(python_float(1.7976931348623157e308), "1.7976931348623157e+308");
  EXPECT_EQ(python_float(5e-324), "5e-324");
  EXPECT_EQ(python_float(123456789012345680.0), "1.2345678901234568e+17");
  EXPECT_EQ(
      python_json({{"a", nlohmann::ordered_json::array()}, {"b", {1, 2.0, nullptr, true}}}),
      "{\n    \"a\": [],\n    \"b\": [\n        1,\n        2.0,\n        null,\n        true\n"
      "    ]\n}");
  EXPECT_EQ(python_json("\xc3\xa9\x7f\"\\\n\xf0\x9f\x98\x80\xff\xed\xa0\x80"),
            "\"\\u00e9\\u007f\\\"\\\\\\n\\ud83d\\ude00\\udcff\\udced\\udca0\\udc80\"");
}

TEST(MegatronSplit, SumsPairwiseAsNumpyDoes) {
  std::vector<double> weights;
  for (int i = 0; i < 24; ++i) weights.push_back(1 / (i + 1.7));
  EXPECT_EQ(numpy_sum(weights.data(), 24), 0x1.8259ad3915d15p+1);
  double plain = 0;
  for (const double weight : weights) plain += weight;
  EXPECT_EQ(plain, 0x1.8259ad3915d16p+1);
}

TEST(MegatronSplit, RefusesWhatIsNoSplit) {
  for (const char* text : {"", "a", "0,0,0", "1,2,3,4", "1..2", "."}) {
    EXPECT_FALSE(parse_megatron_split(text).ok()) << text;
  }
  // Shares are rounded half to even.
  const auto half = parse_megatron_split("1,1,0").value();
  EXPECT_EQ(half.range(0, 5), (std::pair<std::uint64_t, std::uint64_t>{0, 2}));
  EXPECT_EQ(half.range(0, 7), (std::pair<std::uint64_t, std::uint64_t>{0, 4}));
  EXPECT_EQ(half.range(2, 7), (std::pair<std::uint64_t, std::uint64_t>{0, 0}));
  EXPECT_FALSE(parse_data_path({"1", "p", "q", "r"}).ok());
  EXPECT_FALSE(parse_data_path({}).ok());
}

TEST(MegatronVectors, FilesOfTheFormulaAreThoseRecorded) {
  TempDir dir;
  const InFolder here(dir.path());
  write_formula_files();
  const char* const hashes[3][2] = {{"d6eaf04fd541b823", "30305145b10bb8d9"},
                                    {"1b9bc2a241a2d524", "4bc1d02c4bb61a7d"},
                                    {"d668d413822d8d9f", "2ccc27761d6d6c74"}};
  for (std::size_t k = 0; k < 3; ++k) {
    const std::string prefix = "gd/f" + std::to_string(k);
    EXPECT_EQ(sha16(read_file(prefix + ".idx").value()), hashes[k][0]);
    EXPECT_EQ(sha16(read_file(prefix + ".bin").value()), hashes[k][1]);
  }
}

TEST(MegatronVectors, IndexArraysAndSamplesOfOneFile) {
  TempDir dir;
  const InFolder here(dir.path());
  write_formula_files();
  const auto sequences = make_indexed_sequences(IndexedDataset::open("gd/f0").value()).value();
  struct Row {
    GptIndexSpec spec;
    std::int64_t pad;
    std::uint64_t samples, epochs;
    bool separate;
    const char *document, *sample, *shuffle, *tokens;
  };
  const std::optional<std::uint64_t> none;
  const Row rows[] = {
      {{0, 200, none, 64, 1234, true, true},
       0,
       152,
       1,
       false,
       "a5592ce2e033e806",
       "d76569bbf3ccfbb4",
       "f43e9fe1f36c0b3a",
       "07a01723502ae69b"},
      {{0, 200, 100, 64, 1234, true, true},
       0,
       152,
       1,
       false,
       "a5592ce2e033e806",
       "d76569bbf3ccfbb4",
       "f43e9fe1f36c0b3a",
       "07a01723502ae69b"},
      {{0, 200, 200, 64, 1234, true, true},
       0,
       305,
       2,
       true,
       "6fc15d70200ffbaf",
       "4df050891d9bb608",
       "8fe0fb3970bb2f47",
       "46ade6e79a97c87e"},
      {{0, 200, 290, 64, 1234, true, true},
       0,
       305,
       2,
       false,
       "ba39417804ca9fb7",
       "fe20a98899c97621",
       "3e7ff3fc6ea236c7",
       "d4f31688ff77fa0f"},
      {{0, 200, 450, 64, 1234, true, true},
       0,
       458,
       3,
       false,
       "a692269b52830996",
       "4f4db93743e83ad1",
       "9d52f2ec7a346bb0",
       "fce5850e12f4016b"},
      {{0, 200, 1000, 64, 1234, true, true},
       0,
       1069,
       7,
       true,
       "65cd6c9a46869cd1",
       "cf9e968887a7d527",
       "ec9a0bf04b2a1e29",
       "fe5ccd06ea0e41b5"},
      {{0, 200, 1000, 64, 42, true, true},
       0,
       1069,
       7,
       true,
       "d13a3d461903d336",
       "d8af62e5bf854da9",
       "81fbea6db3c0353c",
       "05f6ccf6d05b5b69"},
      {{0, 200, 500, 33, 1234, false, true},
       0,
       592,
       2,
       true,
       "6fc15d70200ffbaf",
       "a950394283c2ab21",
       "625983696345c767",
       "8cfc24ed8de6ab11"},
      {{0, 200, none, 64, 1234, true, false},
       -1,
       153,
       1,
       false,
       "a5592ce2e033e806",
       "bd8937039732411e",
       "9979c132615897aa",
       "cf9700606194a69d"},
      {{0, 200, none, 64, 1234, false, false},
       -1,
       153,
       1,
       false,
       "a5592ce2e033e806",
       "942dd5c69f71f0b4",
       "9979c132615897aa",
       "b60ed43abf974743"},
      {{20, 180, 300, 128, 1, true, true},
       0,
       307,
       5,
       false,
       "2cb7e8e072db698b",
       "857e7631bfae1f65",
       "0ef69f728f62f2de",
       "67575a7b4d663c99"},
      {{0, 200, 64, 2048, 1234, true, true},
       0,
       66,
       14,
       true,
       "f7639455f0cac30b",
       "321ef520efa79169",
       "ce51a01c91088fc0",
       "524786f1f7c878e4"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::to_string(row.spec.num_samples.value_or(0)) + " samples of " +
                 std::to_string(row.spec.seq_len));
    const auto dataset = GptDataset::open(sequences, {.path = "gd/f0", .spec = row.spec}).value();
    EXPECT_EQ(dataset->size(), row.samples);
    EXPECT_EQ(dataset->counts().epochs, row.epochs);
    EXPECT_EQ(dataset->counts().separate_final_epoch, row.separate);
    EXPECT_EQ(sha16(dataset->index().document_index.bytes()), row.document);
    EXPECT_EQ(sha16(dataset->index().sample_index.bytes()), row.sample);
    EXPECT_EQ(sha16(dataset->index().shuffle_index.bytes()), row.shuffle);
    std::vector<std::int64_t> tokens;
    for (std::uint64_t k = 0; k < std::min<std::uint64_t>(50, dataset->size()); ++k) {
      const auto one = testing::padded_sample(*dataset, k, row.pad);
      tokens.insert(tokens.end(), one.begin(), one.end());
    }
    EXPECT_EQ(sha256_16(tokens), row.tokens);
  }
}

std::vector<BlendLevel> levels() {
  std::vector<BlendLevel> all{BlendLevel::kScalar};
  if (best_blend_level() != BlendLevel::kScalar) all.push_back(BlendLevel::kAvx2);
  if (best_blend_level() == BlendLevel::kAvx512) all.push_back(BlendLevel::kAvx512);
  return all;
}

TEST(MegatronVectors, GreedyBlendsOnEveryLevelOfInstructions) {
  struct Row {
    std::vector<double> weights;
    BlendRounding rounding;
    const char *datasets, *samples;
    std::vector<std::uint64_t> counts;
  };
  using enum BlendRounding;
  const Row rows[] = {
      {{.5, .3, .2}, kSeparate, "c0ff79395b852403", "bddc553bd1e255da", {50000, 30000, 20000}},
      {{.5, .3, .2}, kFused, "888122f6d36219f2", "8fe43f402d4416ac", {50000, 30000, 20000}},
      {{1, 1, 1}, kSeparate, "1b00ed8005354918", "5ad831cdaa889f6a", {33334, 33333, 33333}},
      {std::vector<double>(10, 1), kSeparate, "e76beb4eb155f51c", "f0da1659fa639ce2",
       std::vector<std::uint64_t>(10, 10000)},
      {std::vector<double>(10, 1), kFused, "e76beb4eb155f51c", "f0da1659fa639ce2",
       std::vector<std::uint64_t>(10, 10000)},
      {{1 / 1.7, 1 / 2.7, 1 / 3.7},
       kSeparate,
       "c7da9fa1e11cae41",
       "11820b22d4b60cdc",
       {47868, 30139, 21993}},
      {{1 / 1.7, 1 / 2.7, 1 / 3.7},
       kFused,
       "c7da9fa1e11cae41",
       "11820b22d4b60cdc",
       {47868, 30139, 21993}},
      {{.001, .999}, kSeparate, "8cf6aa37ab5c51ac", "4b19faa0d0b24840", {100, 99900}},
  };
  for (const Row& row : rows) {
    for (const BlendLevel level : levels()) {
      const auto made =
          blend_greedy(numpy_normalize(row.weights), 100000, row.rounding, level).value();
      EXPECT_EQ(sha256_16(made.dataset_index), row.datasets);
      EXPECT_EQ(sha256_16(made.dataset_sample_index), row.samples);
      EXPECT_EQ(made.counts(row.weights.size()), row.counts);
    }
  }
}

TEST(MegatronVectors, ExhaustiveBlends) {
  const auto small = blend_exhaustive(std::vector<std::uint64_t>{3, 5, 2}).value();
  EXPECT_EQ(small.dataset_index, (std::vector<std::int16_t>{1, 0, 2, 1, 0, 1, 2, 1, 0, 1}));
  EXPECT_EQ(sha256_16(small.dataset_index), "eca0be0aaf8f77a8");
  EXPECT_EQ(sha256_16(small.dataset_sample_index), "1105a244b34e761d");
  const auto large = blend_exhaustive(std::vector<std::uint64_t>{1000, 10, 1}).value();
  EXPECT_EQ(sha256_16(large.dataset_index), "ed5582d258b30127");
  EXPECT_EQ(sha256_16(large.dataset_sample_index), "ac3f3933dc33b3e2");
  EXPECT_EQ(blend_exhaustive(std::vector<std::uint64_t>{0, 2, 0}).value().counts(3),
            (std::vector<std::uint64_t>{0, 2, 0}));
}

TEST(MegatronVectors, BuilderEndToEndWithItsCacheFiles) {
  TempDir dir;
  const InFolder here(dir.path());
  write_formula_files();
  MegatronConfig config;
  config.seed = 1234;
  config.seq_len = 64;
  config.blend = {{"gd/f0", "gd/f1", "gd/f2"}, std::vector<double>{.5, .3, .2}};
  config.split = "900,80,20";
  config.tokenizer = {{"class", "Tok"}};
  config.cache = "cache";
  struct Member {
    std::uint64_t requested, built, first, last;
    const char* shuffle;
  };
  struct Split {
    std::uint64_t size;
    const char *datasets, *samples, *md5;
    std::size_t description;
    Member members[3];
  };
  const Split splits[3] = {{1000,
                            "2e28e3a4df089cf7",
                            "e9592a7a030fa300",
                            "a835401f242350a44d45e68073433c3d",
                            2070,
                            {{503, 551, 0, 180, "b222f2ce17b4ed14"},
                             {302, 343, 0, 225, "8572c584c8a0d2ea"},
                             {201, 206, 0, 270, "6e97e48361156a49"}}},
                           {20,
                            "dda07aebad666ca4",
                            "2326e663c7c9a97b",
                            "e048bd8081737e5eededfdf4d30a7ece",
                            2063,
                            {{11, 11, 180, 196, "b3ed21c0eade5418"},
                             {7, 15, 225, 245, "3b52ad4de7063539"},
                             {5, 19, 270, 294, "15e44661e84f3389"}}},
                           {3,
                            "90c2698921ca9fd0",
                            "9d908ecfb6b256de",
                            "bc5d6136541cbdae805b25e1bbdaf45e",
                            2057,
                            {{2, 3, 196, 200, "a7b5f185aee1c8e2"},
                             {2, 4, 245, 250, "7e917078917ef4c2"},
                             {2, 4, 294, 300, "3c52e07ea6f9c688"}}}};
  for (int round = 0; round < 2; ++round) {  // built, then read from the cache
    const auto built = open_megatron_datasets(config, {1000, 20, 2}).value();
    for (std::size_t s = 0; s < 3; ++s) {
      SCOPED_TRACE(s);
      const MegatronDataset& dataset = *built[s];
      EXPECT_EQ(dataset.size(), splits[s].size);
      EXPECT_EQ(sha16(dataset.dataset_index().bytes()), splits[s].datasets);
      EXPECT_EQ(sha16(dataset.dataset_sample_index().bytes()), splits[s].samples);
      EXPECT_EQ(md5_hex(dataset.description()), splits[s].md5);
      EXPECT_EQ(dataset.description().size(), splits[s].description);
      for (std::size_t i = 0; i < 3; ++i) {
        const GptDataset& member = *dataset.members()[i];
        const Member& expected = splits[s].members[i];
        EXPECT_EQ(member.options().spec.num_samples, expected.requested);
        EXPECT_EQ(member.size(), expected.built);
        EXPECT_EQ(member.options().spec.first_sequence, expected.first);
        EXPECT_EQ(member.options().spec.last_sequence, expected.last);
        EXPECT_EQ(sha16(member.index().shuffle_index.bytes()), expected.shuffle);
      }
    }
  }
  const std::string blend = "cache/a835401f242350a44d45e68073433c3d-BlendedDataset-train-";
  EXPECT_EQ(read_file(blend + "dataset_index.npy").value().size(), 2128u);
  EXPECT_EQ(sha16(read_file(blend + "dataset_index.npy").value()), "a5c3389a7d1a61d3");
  EXPECT_EQ(read_file(blend + "dataset_sample_index.npy").value().size(), 8128u);
  EXPECT_EQ(sha16(read_file(blend + "dataset_sample_index.npy").value()), "93d6353ecfcef1a9");
  for (const char* md5 : {"4362814c8eeb214b0c0c432e060e4159", "24281604987085e40e22bb55571143a2",
                          "431565371697bb1ca6afebd4eef07ceb"}) {
    const auto text =
        read_file("cache/" + std::string(md5) + "-GPTDataset-train-description.txt").value();
    EXPECT_EQ(text.size(), 427u);
    EXPECT_EQ(md5_hex(text), md5);
  }
}

TEST(MegatronComplaints, AnEmptyPartIsAnErrorThatNamesIt) {
  TempDir dir;
  const InFolder here(dir.path());
  write_formula_files();
  MegatronConfig config;
  config.seq_len = 64;
  config.blend = {{"gd/f0"}, std::nullopt};
  config.split = "969,30,1";  // of 200 documents the test part gets 200 to 200
  config.use_cache = false;
  const auto opened = open_megatron_datasets(config, {100, 10, 2});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(opened.error().message.find("the test part of gd/f0"), std::string::npos)
      << opened.error().message;
  EXPECT_TRUE(open_megatron_datasets(config, {100, 10, 2}, {true, true, false}).ok());
}

TEST(MegatronComplaints, SampleCountsInFloatAreReproducedAndTheExactOneIsSaid) {
  const std::vector<std::int32_t> lengths(2, 16'777'218 / 2);
  GptIndexSpec spec{.first_sequence = 0, .last_sequence = 2, .seq_len = 1024};
  spec.drop_last = false;
  const auto counts = count_gpt_index(SequenceLengths(lengths), spec).value();
  EXPECT_EQ(counts.samples, 16384u);
  EXPECT_EQ(counts.exact_samples, 16385u);
}

TEST(MegatronComplaints, CountsBeyond32BitsAreRefusedWithBothNumbers) {
  const std::vector<std::int32_t> lengths(3, 10);
  GptIndexSpec spec{
      .first_sequence = 0, .last_sequence = 3, .num_samples = 3'000'000'000, .seq_len = 8};
  const auto counts = count_gpt_index(SequenceLengths(lengths), spec);
  ASSERT_FALSE(counts.ok());
  EXPECT_EQ(counts.error().kind, ErrorKind::kLimit);
  spec.num_samples = std::nullopt;
  spec.seed = std::uint64_t{1} << 32;
  EXPECT_EQ(count_gpt_index(SequenceLengths(lengths), spec).error().kind, ErrorKind::kInvalid);
}

TEST(MegatronComplaints, ABlendThatTakesTooMuchNamesTheMemberAndASurplusThatWillDo) {
  TempDir dir;
  const InFolder here(dir.path());
  write_formula_files();
  MegatronConfig config;
  config.seq_len = 64;
  config.blend = {{"gd/f0", "gd/f1"}, std::vector<double>{.001, .999}};
  config.split = "1";
  config.use_cache = false;
  for (std::uint64_t size = 150; size < 20000; size = size * 5 / 4) {
    const auto opened = open_megatron_datasets(config, {size, {}, {}});
    if (opened.ok()) continue;
    EXPECT_NE(opened.error().message.find("surplus"), std::string::npos) << opened.error().message;
  }
}

}  // namespace
}  // namespace sx
