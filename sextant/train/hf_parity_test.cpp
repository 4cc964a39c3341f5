// Logits of tiny models as transformers computed them
// (tests/golden/reference/make_hf_reference.py), and the way back.
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cstring>

#include "sextant/base/diagnostic.h"
#include "sextant/ckpt/safetensors.h"
#include "sextant/hf/hf_writer.h"
#include "sextant/tensor/rank_thread.h"
#include "sextant/train/hf_start.h"
#include "sextant/train/load_model.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

const char* const kModels[] = {"gpt2",       "llama",   "llama2-linear", "llama3",
                               "llama-bias", "mistral", "qwen2",         "qwen3"};

fs::path reference(const std::string& name) {
  return source_file("tests/golden/reference/hf") / name;
}

std::unique_ptr<Decoder> load_decoder(const HfFolder& folder) {
  prepare_rank_thread({});
  auto decoder = std::make_unique<Decoder>(folder.shape());
  load_hf_whole(folder, *decoder);
  return decoder;
}

at::Tensor logits_of(Decoder& decoder, const at::Tensor& tokens) {
  const c10::AutoGradMode no_grad(false);
  return decoder.forward({tokens, {}, {}}).narrow(2, 0, decoder.shape().vocab_size).contiguous();
}

class HfParity : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, HfParity, testing::ValuesIn(kModels), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(HfParity, LogitsEqualTransformers) {
  const HfFolder folder = open_hf_folder(reference(GetParam()));
  const auto file = safetensors::File::open(reference(GetParam()) / "logits.safetensors").value();
  const at::Tensor expected = load_tensor(file, "logits").value();
  const auto decoder = load_decoder(folder);
  const at::Tensor logits = logits_of(*decoder, load_tensor(file, "tokens").value());
  ASSERT_EQ(logits.sizes(), expected.sizes());
  const double spread = expected.max().sub(expected.min()).item<double>();
  EXPECT_LE(logits.sub(expected).abs().max().item<double>(), 1e-4 * spread);
}

TEST_P(HfParity, ExportIsByteEqualPerTensor) {
  const HfFolder folder = open_hf_folder(reference(GetParam()));
  const auto decoder = load_decoder(folder);
  HfSource source;
  source.read = [&](const HfParam& param, std::int64_t begin, std::int64_t count,
                    std::byte* to) -> Result<void> {
    const at::Tensor values = decoder->parameter(param.name).tensor.detach().view({-1});
    std::memcpy(to, values.const_data_ptr<float>() + begin, static_cast<std::size_t>(count) * 4);
    return {};
  };
  const TempDir dir;
  ASSERT_TRUE(
      write_hf_folder(dir / "m", folder.shape(), source, {.base_config = folder.config().fields})
          .ok());
  const auto theirs = safetensors::File::open(reference(GetParam()) / "model.safetensors").value();
  const auto ours = safetensors::File::open(dir / "m" / "model.safetensors").value();
  ASSERT_EQ(ours.header().entries.size(), theirs.header().entries.size());
  for (const auto& entry : theirs.header().entries) {
    const auto* written = ours.find(entry.name);
    ASSERT_NE(written, nullptr) << entry.name;
    EXPECT_EQ(written->shape, entry.shape) << entry.name;
    const auto a = ours.data(*written), b = theirs.data(entry);
    ASSERT_EQ(a.size(), b.size()) << entry.name;
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0) << entry.name;
  }
  EXPECT_EQ(HfFolder::open(dir / "m").value().shape(), folder.shape());
}

// Any cut of a parameter gets the same values, in a wider dtype too.
TEST(HfStart, PartsOfAnyCutAndDtype) {
  const HfFolder folder = open_hf_folder(reference("gpt2"));
  const auto whole = load_decoder(folder);
  std::vector<TensorPart> parts;
  for (const HfParam& param : folder.params()) {
    const std::int64_t begin = param.num_elements() / 3;
    const std::int64_t count = param.num_elements() / 2;
    parts.push_back(
        {param.name, param.shape, Region::flat(begin, count), at::empty({count}, at::kDouble)});
  }
  load_hf_parts(folder, parts);
  for (const TensorPart& part : parts) {
    const at::Tensor expected = whole->parameter(part.name).tensor.detach().view({-1}).narrow(
        0, part.region.offset[0], part.values.numel());
    EXPECT_TRUE(at::equal(part.values, expected.to(at::kDouble))) << part.name;
  }
}

TEST(HfStart, DifferencesAreFaultsOrNamed) {
  const HfFolder folder = open_hf_folder(reference("llama"));
  std::vector<TensorPart> parts;
  for (const HfParam& param : folder.params()) {
    parts.push_back({param.name, param.shape, Region::flat(0, 0), at::empty({0}, at::kFloat)});
  }
  parts.front().shape[0] += 128;
  parts.back().name = "other.weight";
  try {
    load_hf_parts(folder, parts);
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_EQ(e.faults().front().number, 21);
    const std::string& what = e.faults().front().what;
    for (const char* part :
         {"tok_embeddings.weight is [128, 8] there, [256, 8] here",
          "other.weight is not in the folder", "output.weight is not in this model"}) {
      EXPECT_NE(what.find(part), std::string::npos) << what;
    }
  }
  ModelShape shape = folder.shape();
  EXPECT_TRUE(hf_differences(shape, folder.shape()).empty());
  shape.rope_theta = 5e5;
  shape.norm_eps = 1e-5;
  EXPECT_EQ(hf_differences(shape, folder.shape()).size(), 2u);
}

TEST(HfStart, FaultsHaveTheirNumbers) {
  const auto number = [](const fs::path& path) {
    try {
      open_hf_folder(path);
    } catch (const FatalError& e) {
      return e.faults().front().number;
    }
    return 0;
  };
  const TempDir dir;
  EXPECT_EQ(number(dir / "absent"), 7);
  ASSERT_TRUE(make_dirs(dir / "m").ok());
  ASSERT_TRUE(write_file_atomic(dir / "m" / "config.json", "{\"model_type\":\"bert\"}").ok());
  EXPECT_EQ(number(dir / "m"), 41);
  ASSERT_TRUE(write_file_atomic(dir / "m" / "config.json", "{").ok());
  EXPECT_EQ(number(dir / "m"), 3);
  EXPECT_EQ(hf_folder_of("hf:/a/b"), fs::path("/a/b"));
  EXPECT_TRUE(hf_folder_of("runs/x").empty());
  EXPECT_EQ(load_model(reference("qwen2")).decoder->shape().arch, Arch::kQwen2);
}

}  // namespace
}  // namespace sx
