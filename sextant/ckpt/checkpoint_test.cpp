#include "sextant/ckpt/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <fstream>
#include <set>
#include <span>

#include "sextant/ckpt/logical_checksum.h"
#include "sextant/ckpt/safetensors.h"
#include "tests/equivalence/rank_test.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CheckpointContent example(std::int64_t step) {
  CheckpointContent content;
  content.step = step;
  content.tokens = step * 1000;
  content.samples = step * 8;
  content.fingerprint = "0123456789abcdef";
  content.mesh = {{"dp_replicate", 2}};
  const double x = static_cast<double>(step);
  content.model = {{"layers.0.wq.weight", at::arange(24, at::kFloat).reshape({4, 6}).add(x)},
                   {"norm.weight", at::full({3}, x / 3.0, at::kDouble)},
                   {"half", at::full({5, 2}, x, at::kBFloat16)},
                   {"scalar", at::full({}, x, at::kFloat)},
                   {"empty", at::zeros({0, 7}, at::kFloat)}};
  content.optim = {{"optim.norm.weight.exp_avg", at::full({3}, -x, at::kDouble)}};
  content.states["loader"] = {{"position", step}, {"seed", 18446744073709551615u}};
  content.states["lr"] = {{"step", step}};
  content.files["recipe.resolved.toml"] = "seed = 1\n";
  content.files["tokenizer/vocab.tiktoken"] = "IQ== 0\n";
  return content;
}

fs::path save(const fs::path& root, const CheckpointContent& content,
              const SaveOptions& options = {}) {
  Communicator solo = Communicator::solo();
  const auto report = save_checkpoint(root, content, solo, options);
  EXPECT_TRUE(report.ok()) << report.error().to_string();
  return report->path;
}

void flip_byte(const fs::path& path, std::int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const auto byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(at);
  file.put(byte);
}

std::vector<std::string> names_in(const fs::path& root) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Checkpoint, ComesBackBitForBit) {
  const TempDir root;
  const CheckpointContent content = example(120);
  const fs::path path = save(root.path(), content, {.created = "2026-08-31T12:00:00Z"});
  EXPECT_EQ(path, root / "step-0000120");
  EXPECT_THAT(names_in(root.path()), ElementsAre("latest", "step-0000120"));
  EXPECT_EQ(*read_file(root / "latest"), "step-0000120\n");
  EXPECT_THAT(names_in(path),
              ElementsAre("manifest.json", "model-00000.safetensors", "optim-00000.safetensors",
                          "recipe.resolved.toml", "state", "tokenizer"));

  const auto checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  EXPECT_EQ(checkpoint->step(), 120);
  EXPECT_EQ(checkpoint->manifest().tokens, 120'000);
  EXPECT_EQ(checkpoint->manifest().created, "2026-08-31T12:00:00Z");
  for (const auto* tensors : {&content.model, &content.optim}) {
    for (const NamedTensor& want : *tensors) {
      const auto got = checkpoint->load(want.name);
      ASSERT_TRUE(got.ok()) << got.error().to_string();
      EXPECT_EQ(got->scalar_type(), want.tensor.scalar_type());
      EXPECT_TRUE(at::equal(*got, want.tensor)) << want.name;
    }
  }
  EXPECT_EQ(*checkpoint->state("loader"), content.states.at("loader"));
  EXPECT_EQ(checkpoint->state("absent").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(checkpoint->load("absent").error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(*verify_checkpoint(path), testing::IsEmpty());
  // The data files alone are ordinary safetensors.
  EXPECT_EQ(load_safetensors(path / "model-00000.safetensors")->size(), 4u + 1u);
}

TEST(Checkpoint, LoadsIntoExistingTensors) {
  const TempDir root;
  const CheckpointContent content = example(7);
  const auto checkpoint = Checkpoint::open(save(root.path(), content));
  ASSERT_TRUE(checkpoint.ok());
  std::vector<NamedTensor> model;
  for (const NamedTensor& t : content.model) {
    at::Tensor to = at::full(t.tensor.sizes(), 99, t.tensor.scalar_type());
    to.set_requires_grad(true);  // a parameter stays the leaf it is
    model.push_back({t.name, to});
  }
  model[0].tensor = at::zeros({6, 4}, at::kFloat).t();  // strides
  const auto report = checkpoint->load_into(model);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  for (std::size_t i = 0; i < model.size(); ++i) {
    EXPECT_TRUE(at::equal(model[i].tensor, content.model[i].tensor)) << model[i].name;
  }
  EXPECT_TRUE(model[1].tensor.is_leaf());
  const std::vector<NamedTensor> optim = {
      {"optim.norm.weight.exp_avg", at::zeros({3}, at::kDouble)}};
  EXPECT_TRUE(checkpoint->load_into(optim, {.prefix = "optim."}).ok());
  EXPECT_EQ(optim[0].tensor[2].item<double>(), -7.0);
}

TEST(Checkpoint, LoadNamesEverythingThatDiffersAndCopiesNothing) {
  const TempDir root;
  const auto checkpoint = Checkpoint::open(save(root.path(), example(7)));
  ASSERT_TRUE(checkpoint.ok());
  const std::vector<NamedTensor> wanted = {{"scalar", at::zeros({}, at::kFloat)},
                                           {"norm.weight", at::zeros({4}, at::kDouble)},
                                           {"half", at::zeros({5, 2}, at::kHalf)},
                                           {"head.weight", at::zeros({1}, at::kFloat)}};
  const auto report = checkpoint->load_into(wanted);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(report.error().message, HasSubstr("missing: head.weight;"));
  EXPECT_THAT(report.error().message, HasSubstr("unexpected: empty, layers.0.wq.weight;"));
  EXPECT_THAT(report.error().message,
              HasSubstr("norm.weight (stored Double [3], wanted Double [4])"));
  EXPECT_THAT(report.error().message,
              HasSubstr("half (stored BFloat16 [5, 2], wanted Half [5, 2])"));
  EXPECT_EQ(wanted[0].tensor.item<float>(), 0.0f);

  const auto partial =
      checkpoint->load_into(wanted, {.exclude = {"head.*", "norm.*", "half", "layers.*", "empty"}});
  ASSERT_TRUE(partial.ok()) << partial.error().to_string();
  EXPECT_THAT(partial->missing, ElementsAre("head.weight"));
  EXPECT_THAT(partial->unexpected, ElementsAre("empty", "layers.0.wq.weight"));
  EXPECT_EQ(wanted[0].tensor.item<float>(), 7.0f);
}

// Saved in the cuts of one number of ranks, read in those of another; and what does not tile is no
// checkpoint.
TEST(Checkpoint, PartsOfRanksComeBackInOtherCuts) {
  const at::Tensor whole = at::arange(35, at::kFloat).view({7, 5});
  const auto part = [&](std::int64_t coord, std::int64_t degree) {
    const std::int64_t begin = coord * 35 / degree, end = (coord + 1) * 35 / degree;
    return TensorPart{"w",
                      {7, 5},
                      Region::flat(begin, end - begin),
                      whole.view({-1}).narrow(0, begin, end - begin).clone()};
  };
  for (const std::int64_t saved : {1, 3, 4}) {
    const TempDir root;
    rank_test(saved, [&](Communicator& world) {
      CheckpointContent content;
      content.step = 5;
      content.model_parts = {part(world.coord(), saved)};
      ASSERT_TRUE(save_checkpoint(root.path(), content, world).ok());
    });
    const auto checkpoint = Checkpoint::open(root / "step-0000005");
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
    EXPECT_EQ(checkpoint->manifest().tensors.at("w").chunks.size(),
              static_cast<std::size_t>(saved));
    EXPECT_TRUE(verify_checkpoint(root / "step-0000005")->empty());
    EXPECT_TRUE(at::equal(checkpoint->load("w").value(), whole));
    for (const std::int64_t wanted : {1, 2, 5, 8}) {
      for (std::int64_t coord = 0; coord < wanted; ++coord) {
        TensorPart own = part(coord, wanted);
        const at::Tensor expected = own.values.clone();
        own.values.zero_();
        ASSERT_TRUE(checkpoint->load_parts({&own, 1}).ok());
        EXPECT_TRUE(at::equal(own.values, expected));
      }
    }
  }
  const TempDir root;
  rank_test(3, [&](Communicator& world) {
    CheckpointContent content;
    content.step = 6;
    if (world.coord() != 1) content.model_parts = {part(world.coord(), 3)};
    EXPECT_FALSE(save_checkpoint(root.path(), content, world).ok());
  });
  EXPECT_TRUE(list_checkpoints(root.path()).value().empty());
}

TEST(Checkpoint, AllRanksSeeTheSameOutcome) {
  const TempDir root;
  rank_test(3, [&](Communicator& world) {
    const auto saved = save_checkpoint(root.path(), example(1), world);
    ASSERT_TRUE(saved.ok());
    EXPECT_EQ(saved->path, root / "step-0000001");
    EXPECT_GT(saved->bytes, 0);
    CheckpointContent bad = example(2);
    bad.model[0].name = "a@b";
    const auto refused = save_checkpoint(root.path(), bad, world);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(refused.error().message, HasSubstr("a@b"));
  });
  EXPECT_THAT(names_in(root.path()), ElementsAre("latest", "step-0000001"));
}

TEST(Checkpoint, VerifyFindsAFlippedByteInEveryFile) {
  const TempDir root;
  for (const auto& name :
       {"model-00000.safetensors", "optim-00000.safetensors", "state/loader.json",
        "recipe.resolved.toml", "tokenizer/vocab.tiktoken", "manifest.json"}) {
    const fs::path path = save(root.path(), example(1));
    const auto size = static_cast<std::int64_t>(fs::file_size(path / name));
    for (const std::int64_t at : {std::int64_t{0}, size / 2, size - 2}) {
      flip_byte(path / name, at);
      const auto faults = verify_checkpoint(path);
      EXPECT_TRUE(!faults.ok() || !faults->empty()) << name << " byte " << at;
      flip_byte(path / name, at);
    }
    EXPECT_THAT(*verify_checkpoint(path), testing::IsEmpty());
  }
  const fs::path path = save(root.path(), example(1));
  flip_byte(path / "model-00000.safetensors",
            static_cast<std::int64_t>(fs::file_size(path / "model-00000.safetensors")) - 1);
  const auto faults = verify_checkpoint(path);
  ASSERT_EQ(faults->size(), 3u);  // of the file, of the chunk, of the content
  EXPECT_THAT((*faults)[1], HasSubstr("half: chunk in model-00000.safetensors"));
  EXPECT_THAT((*faults)[2], HasSubstr("half: logical checksum"));
}

TEST(Checkpoint, SavingAStepAgainReplacesIt) {
  const TempDir root;
  save(root.path(), example(5));
  CheckpointContent again = example(5);
  again.model[3].tensor.fill_(123.0);
  const fs::path path = save(root.path(), again);
  EXPECT_EQ(Checkpoint::open(path)->load("scalar")->item<float>(), 123.0f);
  EXPECT_THAT(names_in(root.path()), ElementsAre("latest", "step-0000005"));
}

TEST(CheckpointChoice, PrefersLatestThenTheNewestThatHolds) {
  const TempDir root;
  std::vector<std::string> rejected;
  EXPECT_FALSE(find_newest_checkpoint(root.path())->has_value());
  EXPECT_FALSE(find_newest_checkpoint(root / "absent")->has_value());
  for (const std::int64_t step : {10, 20, 30}) save(root.path(), example(step));
  const auto newest = [&](bool full = false) {
    rejected.clear();
    return (**find_newest_checkpoint(root.path(), full, &rejected)).filename().string();
  };
  EXPECT_EQ(newest(), "step-0000030");
  ASSERT_TRUE(write_file_atomic(root / "latest", "step-0000020\n").ok());
  EXPECT_EQ(newest(), "step-0000020");

  ASSERT_TRUE(write_file_atomic(root / "latest", "step-0000040\n").ok());  // dangling
  EXPECT_EQ(newest(), "step-0000030");
  EXPECT_THAT(rejected, ElementsAre(HasSubstr("step-0000040")));
  ASSERT_TRUE(write_file_atomic(root / "latest", "../elsewhere").ok());
  EXPECT_EQ(newest(), "step-0000030");
  fs::remove(root / "latest");
  EXPECT_EQ(newest(), "step-0000030");

  fs::remove(root / "step-0000030/manifest.json");
  EXPECT_EQ(newest(), "step-0000020");
  fs::resize_file(root / "step-0000020/model-00000.safetensors", 50);
  EXPECT_EQ(newest(), "step-0000010");
  EXPECT_THAT(rejected, ElementsAre(HasSubstr("step-0000030"), HasSubstr("50 bytes")));
  fs::create_directory(root / ".tmp-step-0000099-run");
  fs::create_directory(root / "step-99");
  EXPECT_EQ(newest(), "step-0000010");
  flip_byte(root / "step-0000010/model-00000.safetensors", 400);
  EXPECT_EQ(newest(), "step-0000010");  // sizes hold
  EXPECT_FALSE(find_newest_checkpoint(root.path(), true)->has_value());
}

TEST(CheckpointChoice, APersonMayNameItInFourWays) {
  const TempDir run;
  const fs::path root = run / "ckpt";
  EXPECT_FALSE(find_checkpoint(run.path())->has_value());
  const fs::path older = save(root, example(1));
  const fs::path newest = save(root, example(2));
  EXPECT_EQ(**find_checkpoint(older), older);
  EXPECT_EQ(**find_checkpoint(root / "latest"), newest);
  EXPECT_EQ(**find_checkpoint(root), newest);
  EXPECT_EQ(**find_checkpoint(run.path()), newest);
}

TEST(CheckpointRetention, KeepsTheNewestTheRegularAndTheLoaded) {
  const TempDir root;
  SaveOptions options{.keep = 2, .keep_every = 40, .loaded_from = root / "step-0000010"};
  for (std::int64_t step = 10; step <= 100; step += 10) save(root.path(), example(step), options);
  EXPECT_THAT(names_in(root.path()), ElementsAre("latest", "step-0000010", "step-0000040",
                                                 "step-0000080", "step-0000090", "step-0000100"));
  // After going back, the one just saved stays although newer steps lie about.
  options.keep = 1;
  save(root.path(), example(55), options);
  EXPECT_THAT(names_in(root.path()), ElementsAre("latest", "step-0000010", "step-0000040",
                                                 "step-0000055", "step-0000080"));
  EXPECT_EQ(*read_file(root / "latest"), "step-0000055\n");
}

TEST(CheckpointRetention, TornFoldersOfTheSameRunGoAtTheNextSave) {
  const TempDir root;
  fs::create_directories(root / ".tmp-step-0000003-mine/state");
  fs::create_directories(root / ".tmp-step-0000003-other/state");
  save(root.path(), example(4), {.run_id = "mine"});
  EXPECT_THAT(names_in(root.path()),
              ElementsAre(".tmp-step-0000003-other", "latest", "step-0000004"));
}

TEST(CheckpointInspect, ShowsWhatIsInside) {
  const TempDir root;
  const fs::path path = save(root.path(), example(120));
  const auto text = inspect_checkpoint(path);
  ASSERT_TRUE(text.ok()) << text.error().to_string();
  EXPECT_THAT(*text, HasSubstr("step 120  tokens 120000  samples 960"));
  EXPECT_THAT(*text, HasSubstr("mesh dp_replicate 2"));
  EXPECT_THAT(*text, HasSubstr("layers.0.wq.weight"));
  EXPECT_THAT(*text, HasSubstr("[4, 6]"));
  EXPECT_THAT(*text, HasSubstr("6 tensors"));
  const auto statistics = inspect_checkpoint(path, "norm.weight");
  EXPECT_THAT(*statistics, HasSubstr("min 40  max 40  mean 40"));
  EXPECT_EQ(inspect_checkpoint(path, "absent").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(inspect_checkpoint(root / "absent").error().kind, ErrorKind::kNotFound);
}

// Ranks exchange sums and errors as texts; a sum may begin with the letter of an error.
TEST(Checkpoint, LoadsWhateverByteItsSumsBeginWith) {
  const TempDir root;
  Communicator solo = Communicator::solo();
  std::set<std::uint64_t> first_bytes;
  float value = 0;
  for (; first_bytes.count('!') == 0; ++value) {
    ASSERT_LT(value, 10'000);
    first_bytes.insert(logical_checksum(std::as_bytes(std::span(&value, 1)), 4) & 0xff);
  }
  --value;
  CheckpointContent content;
  content.model_parts = {{"w", {1}, Region::flat(0, 1), at::full({1}, value, at::kFloat)}};
  const auto report = save_checkpoint(root.path(), content, solo);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  const std::vector<TensorPart> parts{{"w", {1}, Region::flat(0, 1), at::zeros({1}, at::kFloat)}};
  const auto loaded = Checkpoint::open(report->path)->load_parts(parts, {}, &solo);
  ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
  EXPECT_EQ(parts[0].values.item<float>(), value);
}

}  // namespace
}  // namespace sx
