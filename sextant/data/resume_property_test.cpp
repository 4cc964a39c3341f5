// A run that stops anywhere and goes on with other ranks, microbatches and workers sees what the
// straight run sees, in both orders.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "sextant/data/loader.h"
#include "sextant/data/megatron_dataset.h"

namespace sx {
namespace {

constexpr std::int64_t kGlobalBatch = 24;
constexpr std::uint64_t kSteps = 12;

/// How a global batch is dealt out.
struct Deal {
  std::int64_t world = 1;
  std::int64_t micro_batch = 1;
  int workers = 0;
};

Deal random_deal(std::mt19937_64& random) {
  const std::int64_t worlds[] = {1, 2, 3, 4, 6, 8};
  Deal deal{worlds[random() % 6], 1, static_cast<int>(random() % 3)};
  const std::int64_t share = kGlobalBatch / deal.world;
  do {
    deal.micro_batch = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(share));
  } while (share % deal.micro_batch != 0);
  return deal;
}

LoaderOptions options_of(const Deal& deal, std::int64_t rank) {
  LoaderOptions options;
  options.seed = 5;
  options.seq_len = 16;
  options.micro_batch_size = deal.micro_batch;
  options.micro_batches = kGlobalBatch / (deal.world * deal.micro_batch);
  options.data_rank = rank;
  options.data_world = deal.world;
  options.workers = deal.workers;
  options.lookahead_batches = 3;
  return options;
}

std::string dealt_row(const Batch& batch, std::size_t row) {
  const auto s = static_cast<std::size_t>(batch.seq_len());
  std::string text;
  for (const auto& array : {batch.tokens(), batch.targets(), batch.positions()}) {
    for (const std::int32_t value : array.subspan(row * s, s)) text += fmt::format("{} ", value);
  }
  const SampleKey& key = batch.keys[row];
  return text + fmt::format("{} {} {}", key.member, key.epoch, key.unit);
}

struct Stretch {
  std::vector<std::string> rows;    ///< of all steps, in global order
  std::vector<LoaderState> states;  ///< behind each step
};

/// Runs `steps` steps on all ranks of `deal`, from a state or the start; ranks agree about states.
Stretch run(const std::shared_ptr<const Dataset>& dataset, const Deal& deal, std::uint64_t steps,
            const LoaderState* from) {
  Stretch out;
  out.rows.resize(steps * kGlobalBatch);
  for (std::int64_t rank = 0; rank < deal.world; ++rank) {
    Loader loader = Loader::open(dataset, options_of(deal, rank)).value();
    if (from != nullptr) {
      EXPECT_TRUE(loader.restore(*from).ok());
    }
    const std::int64_t micro_batches = kGlobalBatch / (deal.world * deal.micro_batch);
    for (std::uint64_t step = 0; step < steps; ++step) {
      for (std::int64_t micro = 0; micro < micro_batches; ++micro) {
        const Batch batch = loader.next().value();
        for (std::int64_t row = 0; row < deal.micro_batch; ++row) {
          const std::int64_t place = (micro * deal.world + rank) * deal.micro_batch + row;
          out.rows[step * kGlobalBatch + static_cast<std::uint64_t>(place)] =
              dealt_row(batch, static_cast<std::size_t>(row));
        }
      }
      if (rank == 0) {
        out.states.push_back(loader.state());
      } else {
        EXPECT_EQ(loader.state(), out.states[step]);
      }
    }
  }
  return out;
}

void expect_every_resume_to_agree(const std::shared_ptr<const Dataset>& dataset,
                                  std::uint64_t seed) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  const Stretch straight = run(dataset, {}, kSteps, nullptr);
  for (int point = 0; point < 50; ++point) {
    // Stops behind step `stop`, twice when there is room, each time dealt out anew.
    std::uint64_t step = 0;
    LoaderState state;
    std::string trace;
    while (step < kSteps) {
      const Deal deal = random_deal(random);
      const std::uint64_t length = 1 + random() % (kSteps - step);
      trace += fmt::format("[{} steps, {} ranks of {} rows, {} workers]", length, deal.world,
                           deal.micro_batch, deal.workers);
      const Stretch part = run(dataset, deal, length, step > 0 ? &state : nullptr);
      state = part.states.back();
      for (std::uint64_t i = 0; i < part.rows.size(); ++i) {
        ASSERT_EQ(part.rows[i], straight.rows[step * kGlobalBatch + i]) << trace << " row " << i;
      }
      for (std::uint64_t i = 0; i < length; ++i) {
        ASSERT_EQ(part.states[i], straight.states[step + i]) << trace;
      }
      step += length;
    }
  }
}

TEST(ResumeProperty, NativeOrderAtFiftyRandomChains) {
  const auto dataset = Dataset::from_members(
      {{"a", make_mock_source(1, 2000, 50), 3}, {"b", make_mock_source(2, 777, 50), 2}});
  expect_every_resume_to_agree(dataset, 20261130);
}

TEST(ResumeProperty, MegatronOrderAtFiftyRandomChains) {
  MegatronConfig config;
  config.seq_len = 16;
  config.use_cache = false;
  config.split = "1";
  config.blend = {{"a", "b", "a"}, std::vector<double>{.5, .3, .2}};
  config.open_other = [](const std::string& path) {
    return make_document_sequences(make_mock_source(path == "a" ? 1 : 2, 2500, 50));
  };
  const auto splits = open_megatron_datasets(config, {kSteps * kGlobalBatch, {}, {}}).value();
  expect_every_resume_to_agree(Dataset::from_megatron(splits[0], ""), 42);
}

}  // namespace
}  // namespace sx
