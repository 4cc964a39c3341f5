#include "sextant/convert/convert.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <fstream>

#include "sextant/base/fs.h"
#include "sextant/ckpt/checkpoint.h"
#include "sextant/ckpt/safetensors.h"
#include "sextant/dcp/dcp_folder.h"
#include "sextant/hf/hf_folder.h"
#include "sextant/hf/hf_writer.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

fs::path hf_reference(const std::string& name) {
  return source_file("tests/golden/reference/hf") / name;
}

void expect_same_tensors(const fs::path& folder, const fs::path& other) {
  const auto a = HfFolder::open(folder).value(), b = HfFolder::open(other).value();
  EXPECT_EQ(a.shape(), b.shape());
  for (const HfParam& param : a.params()) {
    const auto bytes =
        static_cast<std::size_t>(param.num_elements() * safetensors::size_bytes(a.dtype(param)));
    std::vector<std::byte> one(bytes), two(bytes);
    ASSERT_EQ(a.dtype(param), b.dtype(*b.find(param.name)));
    a.read(param, 0, param.num_elements(), one.data());
    b.read(*b.find(param.name), 0, param.num_elements(), two.data());
    EXPECT_EQ(one, two) << param.name;
  }
}

TEST(Convert, ThereAndBackKeepsEveryByte) {
  for (const char* name : {"gpt2", "llama3", "qwen2", "qwen3"}) {
    const TempDir dir;
    const auto imported = import_hf(hf_reference(name), dir / "ckpt");
    ASSERT_TRUE(imported.ok()) << imported.error().to_string();
    EXPECT_TRUE(verify_checkpoint(imported->path).value().empty());
    const auto found = find_checkpoint(dir / "ckpt").value();
    ASSERT_TRUE(found.has_value());
    const auto exported = export_hf(*found, dir / "out", {.shard_bytes = 2000});
    ASSERT_TRUE(exported.ok()) << exported.error().to_string();
    EXPECT_TRUE(fs::exists(dir / "out" / "model.safetensors.index.json"));
    expect_same_tensors(hf_reference(name), dir / "out");
  }
}

TEST(Convert, FilesTravelAndDtypeCanBeChosen) {
  const TempDir dir;
  fs::copy(hf_reference("llama"), dir / "m");
  ASSERT_TRUE(write_file_atomic(dir / "m" / "generation_config.json", "{\"top_k\":3}\n").ok());
  const auto imported = import_hf(dir / "m", dir / "ckpt").value();
  const auto exported = export_hf(imported.path, dir / "out", {.dtype = safetensors::Dtype::kBF16});
  ASSERT_TRUE(exported.ok()) << exported.error().to_string();
  EXPECT_EQ(read_file(dir / "out" / "generation_config.json").value(), "{\"top_k\":3}\n");
  const auto folder = HfFolder::open(dir / "out").value();
  EXPECT_EQ(folder.dtype(folder.params().front()), safetensors::Dtype::kBF16);
  EXPECT_EQ(folder.config().dtype, "bfloat16");
  EXPECT_EQ(folder.config().fields.at("eos_token_id"), 2);
}

TEST(Convert, TorchCheckpointsBecomeSafetensors) {
  const TempDir dir;
  const fs::path source = source_file("tests/golden/reference/dcp/one");
  const auto converted = export_dcp(source, dir / "out", {.prefix = "model."});
  ASSERT_TRUE(converted.ok()) << converted.error().to_string();
  EXPECT_EQ(converted->tensors, 5);
  const auto file = safetensors::File::open(dir / "out" / "model.safetensors").value();
  const auto values = file.data(*file.find("w"));
  float third = 0;
  std::memcpy(&third, values.data() + 12, 4);
  EXPECT_EQ(third, 1.5f);
  EXPECT_EQ(file.find("ids"), nullptr);
  EXPECT_EQ(export_dcp(source, dir / "none", {.prefix = "other."}).error().kind,
            ErrorKind::kNotFound);
}

TEST(Convert, WhatIsNoModelOfTheirsIsSaid) {
  const TempDir dir;
  const auto imported = import_hf(hf_reference("llama"), dir / "ckpt").value();
  EXPECT_EQ(export_hf(dir / "absent", dir / "out").error().kind, ErrorKind::kNotFound);
  std::string bytes = read_file(imported.path / "model.json").value();
  bytes.replace(bytes.find("llama"), 5, "llamo");
  ASSERT_TRUE(write_file_atomic(imported.path / "model.json", bytes).ok());
  EXPECT_FALSE(export_hf(imported.path, dir / "out").ok());
}

TEST(Convert, ADamagedCheckpointIsNotExported) {
  const TempDir dir;
  const auto imported = import_hf(hf_reference("llama"), dir / "ckpt").value();
  const fs::path data = imported.path / "model-00000.safetensors";
  std::string bytes = read_file(data).value();
  bytes[bytes.size() - 5] ^= 1;
  ASSERT_TRUE(write_file_atomic(data, bytes).ok());
  for (const auto dtype : {std::optional<safetensors::Dtype>(), {safetensors::Dtype::kBF16}}) {
    const auto exported = export_hf(imported.path, dir / "out", {.dtype = dtype});
    ASSERT_FALSE(exported.ok());
    EXPECT_EQ(exported.error().kind, ErrorKind::kCorrupt);
    EXPECT_FALSE(fs::exists(dir / "out"));
  }
}

TEST(Convert, AnExportTakesNoOthersPlace) {
  const TempDir dir;
  const auto imported = import_hf(hf_reference("llama"), dir / "ckpt").value();
  ASSERT_TRUE(export_hf(imported.path, dir / "out", {.shard_bytes = 2000}).ok());
  const auto again = export_hf(imported.path, dir / "out");
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().kind, ErrorKind::kInvalid);
  EXPECT_FALSE(fs::exists(dir / "out" / "model.safetensors"));
}

std::int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6));
  }
  return 0;
}

// A model of 96 MiB whose largest tensor has 8 MiB: what the process holds grows by at most twice
// that in either direction.
TEST(ConvertMemory, AtMostTwiceTheLargestTensor) {
  ModelShape shape = defaults_for(Arch::kLlama);
  shape.num_layers = 3;
  shape.hidden = 1024;
  shape.ffn_hidden = 2048;
  shape.num_heads = 8;
  shape.vocab_size = 2048;
  shape.max_positions = 64;
  shape.tie_embeddings = true;
  derive_sizes(shape);
  const TempDir dir;
  HfSource source;
  source.read = [](const HfParam&, std::int64_t, std::int64_t count,
                   std::byte* to) -> Result<void> {
    std::memset(to, 0x3c, static_cast<std::size_t>(count) * 4);
    return {};
  };
  const auto written = write_hf_folder(dir / "m", shape, source).value();
  ASSERT_GT(written.bytes, std::uint64_t{90} << 20);
  constexpr std::int64_t kLargestKib = 8 << 10;
  const std::int64_t before = resident_kib();
  const auto imported = import_hf(dir / "m", dir / "ckpt").value();
  const std::int64_t between = resident_kib();
  EXPECT_LE(between - before, 2 * kLargestKib);
  ASSERT_TRUE(export_hf(imported.path, dir / "out").ok());
  EXPECT_LE(resident_kib() - between, 2 * kLargestKib);
}

}  // namespace
}  // namespace sx
