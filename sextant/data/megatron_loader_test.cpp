// Rows that megatron-core 0.19.2 gave, through the loader.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sextant/base/fs.h"
#include "sextant/data/loader.h"
#include "sextant/data/megatron_dataset.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

using RowJson = nlohmann::json;

MegatronConfig row_config(const std::string& prefix, std::uint64_t seq_len) {
  MegatronConfig config;
  config.seq_len = seq_len;
  config.use_cache = false;
  config.blend.paths = {test_data("megatron/" + prefix).string()};
  return config;
}

std::vector<std::int32_t> without_repeats(std::vector<std::int32_t> entries) {
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  return entries;
}

template <class T, class U>
std::vector<T> as(std::span<const U> values) {
  return {values.begin(), values.end()};
}

TEST(MegatronLoader, RowsLabelsMasksAndPositionsAreThoseRecorded) {
  const RowJson file = RowJson::parse(read_file(test_data("megatron/masks.json")).value());
  ASSERT_EQ(file["cases"].size(), 8u);
  int compared = 0;
  for (const RowJson& one : file["cases"]) {
    const bool train = one["which"] == "train";
    MegatronConfig config = row_config(one["prefix"], one["sequence_length"]);
    config.seed = one["seed"];
    config.extra_token = one["add_extra_token"];
    config.drop_last_valid = one["drop_last"];
    config.split = train ? "1,0,0" : "0,1,0";
    const MegatronSplits splits = open_megatron_datasets(config, {}).value();
    LoaderOptions options;
    options.pass = LoaderOptions::Pass::kEval;
    options.seq_len = one["sequence_length"];
    options.workers = 0;
    options.masks = {.inter_document = one["inter_document_masking"],
                     .eod_mask = one["eod_mask_loss"],
                     .reset_positions = one["reset_position_ids"],
                     .reset_attention = one["reset_attention_mask"],
                     .eod_id = one["eod"],
                     .pad_id = one["pad"]};
    Loader loader =
        Loader::open(Dataset::from_megatron(splits[train ? 0 : 1], ""), options).value();
    std::vector<Batch> batches;
    for (std::uint64_t k = 0; k < loader.num_steps(); ++k) batches.push_back(loader.next().value());
    EXPECT_EQ(loader.next().error().kind, ErrorKind::kNotFound);
    for (const RowJson& row : one["rows"]) {
      if (row["index"].is_null()) {  // their filler: as ours, no target counts
        for (const RowJson& weight : row["loss_mask"]) EXPECT_EQ(weight.get<double>(), 0);
        continue;
      }
      const Batch& batch = batches.at(row["index"].get<std::size_t>());
      SCOPED_TRACE(one["prefix"].get<std::string>() + " " + row["index"].dump());
      const Batch& const_batch = batch;
      EXPECT_EQ(as<std::int32_t>(const_batch.tokens()),
                row["tokens"].get<std::vector<std::int32_t>>());
      EXPECT_EQ(as<std::int32_t>(const_batch.targets()),
                row["labels"].get<std::vector<std::int32_t>>());
      EXPECT_EQ(as<double>(const_batch.loss_mask()), row["loss_mask"].get<std::vector<double>>());
      EXPECT_EQ(as<std::int32_t>(const_batch.positions()),
                row["position_ids"].get<std::vector<std::int32_t>>());
      double counted = 0;
      for (const RowJson& weight : row["loss_mask"]) counted += weight.get<double>();
      EXPECT_EQ(static_cast<double>(batch.num_loss_tokens), counted);
      if (row.contains("cu_seqlens")) {
        EXPECT_EQ(without_repeats(as<std::int32_t>(const_batch.cu_seqlens())),
                  without_repeats(row["cu_seqlens"].get<std::vector<std::int32_t>>()));
        EXPECT_EQ(batch.max_seqlen, row["max_seqlen"].get<std::int32_t>());
      }
      ++compared;
    }
  }
  EXPECT_EQ(compared, 32);
}

/// Steps of a training loader as text: tokens and keys of all rows.
std::vector<std::string> train_rows(Loader& loader, int steps) {
  std::vector<std::string> rows;
  for (int i = 0; i < steps; ++i) {
    const Batch batch = loader.next().value();
    std::string text;
    for (const std::int32_t id : batch.tokens()) text += std::to_string(id) + " ";
    for (const SampleKey& key : batch.keys) text += std::to_string(key.unit) + ",";
    rows.push_back(text);
  }
  return rows;
}

TEST(MegatronLoader, GoesOnFromItsStateAndSaysWhenAnotherLengthReorders) {
  MegatronConfig config = row_config("a", 32);
  config.split = "1,0,0";
  const auto open = [&](std::uint64_t samples) {
    const MegatronSplits splits = open_megatron_datasets(config, {samples, {}, {}}).value();
    LoaderOptions options;
    options.seq_len = 32;
    options.workers = 0;
    options.micro_batch_size = 4;
    return Loader::open(Dataset::from_megatron(splits[0], ""), options).value();
  };
  Loader whole = open(100);
  const std::vector<std::string> all = train_rows(whole, 25);
  EXPECT_EQ(whole.num_steps(), 28u);  // one epoch: 113 samples
  Loader begun = open(100);
  (void)train_rows(begun, 10);
  const LoaderState state = begun.state();
  EXPECT_EQ(state.mode, "megatron");
  EXPECT_EQ(state.samples, 100u);
  EXPECT_EQ(state.position, 40u);
  EXPECT_EQ(LoaderState::parse(state.to_json().dump()).value(), state);
  // Within the same number of epochs more samples change nothing.
  for (const std::uint64_t samples : {std::uint64_t{100}, std::uint64_t{110}}) {
    Loader resumed = open(samples);
    ASSERT_TRUE(resumed.restore(state).ok());
    const std::vector<std::string> rest = train_rows(resumed, 15);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), all.begin() + 10));
    EXPECT_EQ(resumed.state().consumed_hash, whole.state().consumed_hash);
  }
  // With other epochs the run goes on, in the new order (the log says how many differ).
  Loader longer = open(300);
  EXPECT_TRUE(longer.restore(state).ok());
  // Another order, seed, length or file is refused.
  LoaderState native = state;
  native.mode = "native";
  EXPECT_EQ(whole.restore(native).error().kind, ErrorKind::kInvalid);
  config.seed = 99;
  EXPECT_EQ(open(100).restore(state).error().kind, ErrorKind::kInvalid);
  config.seed = 1234;
  config.blend.paths = {test_data("megatron/c").string()};
  EXPECT_EQ(open(100).restore(state).error().kind, ErrorKind::kInvalid);
}

}  // namespace
}  // namespace sx
