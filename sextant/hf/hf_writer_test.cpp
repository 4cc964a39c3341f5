#include "sextant/hf/hf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "sextant/hf/hf_folder.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using testing::HasSubstr;

ModelShape written_shape(Arch arch) {
  ModelShape shape = defaults_for(arch);
  shape.num_layers = 2;
  shape.hidden = 16;
  shape.num_heads = 4;
  shape.vocab_size = 37;
  shape.max_positions = 32;
  derive_sizes(shape);
  return shape;
}

/// Element i of a parameter is a number made from its name and i.
float value_of(const HfParam& param, std::int64_t i) {
  float sum = 0;
  for (const char c : param.name) sum = sum * 0.5f + static_cast<float>(c);
  return sum + static_cast<float>(i) * 0.125f;
}

HfSource numbered() {
  HfSource source;
  source.read = [](const HfParam& param, std::int64_t begin, std::int64_t count,
                   std::byte* to) -> Result<void> {
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = value_of(param, begin + i);
      std::memcpy(to + i * 4, &value, 4);
    }
    return {};
  };
  return source;
}

std::vector<float> read(const HfFolder& folder, const HfParam& param, std::int64_t begin,
                        std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  folder.read(param, begin, count, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

// What is written is read back, whole and in any range; rows of padding are zero.
TEST(HfWriter, FoldersAreReadBackInAnyRange) {
  for (const Arch arch : {Arch::kGpt2, Arch::kLlama, Arch::kQwen2, Arch::kQwen3}) {
    const TempDir dir;
    const HfWriteOptions options{.shard_bytes = 10'000, .companions = {{"merges.txt", "a b\n"}}};
    const HfWritten written =
        write_hf_folder(dir / "m", written_shape(arch), numbered(), options).value();
    EXPECT_GT(written.files, 1);
    const auto opened = HfFolder::open(dir / "m");
    ASSERT_TRUE(opened.ok()) << opened.error().to_string();
    const HfFolder& folder = *opened;
    EXPECT_EQ(folder.companions().value().at("merges.txt"), "a b\n");
    for (const HfParam& param : folder.params()) {
      EXPECT_EQ(folder.dtype(param), safetensors::Dtype::kF32);
      const std::int64_t all = param.num_elements(), real = param.rows * param.columns();
      const std::vector<float> whole = read(folder, param, 0, all);
      for (std::int64_t i = 0; i < all; ++i) {
        ASSERT_EQ(whole[static_cast<std::size_t>(i)], i < real ? value_of(param, i) : 0.0f)
            << param.name << " " << i;
      }
      for (const auto& [begin, count] : {std::pair{all / 3, all / 2},
                                         {all / 7, std::int64_t{1}},
                                         {all - 1, std::int64_t{1}},
                                         {param.columns() / 2, all - param.columns() / 2},
                                         {all, std::int64_t{0}}}) {
        const std::vector<float> part = read(folder, param, begin, count);
        ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin)) << param.name;
      }
      folder.release(param);
      ASSERT_EQ(read(folder, param, 0, all), whole);
    }
  }
}

TEST(HfWriter, OneFileWhenItFitsAndNoIndex) {
  const TempDir dir;
  const HfWritten written =
      write_hf_folder(dir / "m", written_shape(Arch::kLlama), numbered()).value();
  EXPECT_EQ(written.files, 1);
  EXPECT_TRUE(fs::exists(dir / "m" / "model.safetensors"));
  EXPECT_FALSE(fs::exists(dir / "m" / "model.safetensors.index.json"));
  const auto file = safetensors::File::open(dir / "m" / "model.safetensors").value();
  EXPECT_EQ(file.header().metadata.at("format"), "pt");
  EXPECT_EQ(file.find("model.embed_tokens.weight")->shape, (std::vector<std::int64_t>{37, 16}));
}

TEST(HfWriter, FaultsOfTheSourceAreReturned) {
  const TempDir dir;
  HfSource broken;
  broken.read = [](const HfParam&, std::int64_t, std::int64_t, std::byte*) -> Result<void> {
    return Error{ErrorKind::kIo, "gone", ""};
  };
  EXPECT_EQ(write_hf_folder(dir / "m", written_shape(Arch::kLlama), broken).error().message,
            "gone");
  EXPECT_FALSE(fs::exists(dir / "m" / "config.json"));
  ModelShape odd = written_shape(Arch::kLlama);
  odd.positions = Positions::kNone;
  EXPECT_EQ(write_hf_folder(dir / "n", odd, numbered()).error().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace sx
