#include "sextant/data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "sextant/base/rng.h"

namespace sx {
namespace {

std::shared_ptr<const Dataset> blend() {
  return Dataset::from_members(
      {{"a", make_mock_source(1, 2000, 50), 3}, {"b", make_mock_source(2, 777, 50), 2}});
}

/// Everything of a row that a model can see, as text to compare.
std::string row_text(const Batch& batch, std::int64_t row) {
  const auto s = static_cast<std::size_t>(batch.seq_len());
  const auto r = static_cast<std::size_t>(row);
  std::string text;
  const auto put = [&](auto array, std::size_t width) {
    for (const auto value : array.subspan(r * width, width)) text += std::to_string(value) + ' ';
    text += '|';
  };
  put(batch.tokens(), s);
  put(batch.targets(), s);
  put(batch.positions(), s);
  put(batch.document_ids(), s);
  put(batch.loss_mask(), s);
  put(batch.cu_seqlens(), s + 1);
  const SampleKey& key = batch.keys[r];
  return text + std::to_string(key.member) + ' ' + std::to_string(key.epoch) + ' ' +
         std::to_string(key.unit);
}

LoaderOptions options(std::int64_t micro = 2) {
  LoaderOptions options;
  options.seed = 11;
  options.seq_len = 16;
  options.micro_batch_size = micro;
  options.workers = 0;
  return options;
}

/// Rows of `steps` global batches in global order, gathered from all ranks.
std::vector<std::string> global_rows(const std::shared_ptr<const Dataset>& dataset,
                                     LoaderOptions options, int steps,
                                     const LoaderState* from = nullptr,
                                     LoaderState* end = nullptr) {
  const std::int64_t world = options.data_world;
  const std::int64_t per_group = options.micro_batch_size;
  const std::int64_t per_step = per_group * options.micro_batches * world;
  std::vector<std::string> rows(static_cast<std::size_t>(per_step * steps));
  for (std::int64_t rank = 0; rank < world; ++rank) {
    options.data_rank = rank;
    auto loader = Loader::open(dataset, options).value();
    if (from != nullptr) {
      EXPECT_TRUE(loader.restore(*from).ok());
    }
    for (std::int64_t step = 0; step < steps; ++step) {
      for (std::int64_t micro = 0; micro < options.micro_batches; ++micro) {
        const Batch batch = loader.next().value();
        EXPECT_EQ(batch.cursor.step, static_cast<std::uint64_t>(step));
        for (std::int64_t row = 0; row < per_group; ++row) {
          rows[static_cast<std::size_t>(step * per_step + (micro * world + rank) * per_group +
                                        row)] = row_text(batch, row);
        }
      }
    }
    if (end != nullptr && rank > 0) {
      EXPECT_EQ(loader.state(), *end) << "ranks disagree about the state";
    }
    if (end != nullptr) *end = loader.state();
  }
  return rows;
}

TEST(Batch, ArraysAreAlignedAndMemoryIsReused) {
  const auto pool = HostPool::make();
  for (int round = 0; round < 5; ++round) {
    Batch batch(*pool, 3, 7);
    for (const void* array : {static_cast<const void*>(batch.tokens().data()),
                              static_cast<const void*>(batch.targets().data()),
                              static_cast<const void*>(batch.positions().data()),
                              static_cast<const void*>(batch.document_ids().data()),
                              static_cast<const void*>(batch.cu_seqlens().data()),
                              static_cast<const void*>(batch.loss_mask().data())}) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array) % 128, 0u);
    }
    EXPECT_EQ(batch.tokens().size(), 21u);
    EXPECT_EQ(batch.cu_seqlens().size(), 24u);
  }
  EXPECT_EQ(pool->num_allocated(), 1u);
}

TEST(Loader, RowsAreTheTokensOfTheirKey) {
  const auto dataset = blend();
  auto loader = Loader::open(dataset, options()).value();
  for (int i = 0; i < 20; ++i) {
    const Batch batch = loader.next().value();
    EXPECT_EQ(batch.num_loss_tokens, 32u);
    for (std::size_t row = 0; row < 2; ++row) {
      const SampleKey& key = batch.keys[row];
      const TokenSource& source = *dataset->members()[key.member].source;
      std::vector<std::int32_t> window(17);
      ASSERT_TRUE(source.read(key.token, window).ok());
      EXPECT_EQ(source.document_at(key.token), key.document);
      std::uint64_t document = key.document, begin = key.token;
      std::int32_t id = 0;
      for (std::size_t j = 0; j < 16; ++j) {
        EXPECT_EQ(batch.tokens()[16 * row + j], window[j]);
        EXPECT_EQ(batch.targets()[16 * row + j], window[j + 1]);
        const std::uint64_t here = source.document_at(key.token + j);
        if (here != document) {
          document = here;
          begin = key.token + j;
          ++id;
        }
        EXPECT_EQ(batch.document_ids()[16 * row + j], id);
        EXPECT_EQ(batch.positions()[16 * row + j],
                  static_cast<std::int32_t>(key.token + j - begin));
      }
      EXPECT_EQ(batch.num_documents[row], id + 1);
    }
  }
}

// Property: ranks, microbatches and workers are views of one order.
TEST(Loader, AnyRanksMicrobatchesAndWorkersGiveTheSameSequence) {
  const auto dataset = blend();
  LoaderOptions straight = options(24);
  LoaderState end;
  const auto expected = global_rows(dataset, straight, 3, nullptr, &end);
  for (const std::int64_t world : {1, 2, 3, 4}) {
    for (const std::int64_t micro : {1, 2, 6}) {
      if (24 % (world * micro) != 0) continue;
      for (const int workers : {0, 1, 3}) {
        LoaderOptions view = options(micro);
        view.data_world = world;
        view.micro_batches = 24 / (world * micro);
        view.workers = workers;
        view.lookahead_batches = 1 + workers;
        LoaderState state;
        EXPECT_EQ(global_rows(dataset, view, 3, nullptr, &state), expected)
            << world << " ranks, " << micro << " rows, " << workers << " workers";
        EXPECT_EQ(state, end);
      }
    }
  }
}

// Property: any chain of (advance, save, change ranks and batch, restore) gives the stream of the
// straight run.
TEST(Loader, ResumesAnywhereWithoutGapOrRepeat) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  const RandomStream random(seed, "test.loader");
  std::uint64_t draw = 0;
  const auto dataset = blend();
  const auto straight = global_rows(dataset, options(1), 600);
  for (int chain = 0; chain < 12; ++chain) {
    std::vector<std::string> rows;
    auto fresh = Loader::open(dataset, options(1)).value();
    LoaderState state = fresh.state();
    while (rows.size() < 500) {
      LoaderOptions view = options(1 + static_cast<std::int64_t>(random.u64(draw++) % 3));
      view.data_world = 1 + static_cast<std::int64_t>(random.u64(draw++) % 4);
      view.micro_batches = 1 + static_cast<std::int64_t>(random.u64(draw++) % 3);
      view.workers = static_cast<int>(random.u64(draw++) % 3);
      const int steps = static_cast<int>(random.u64(draw++) % 5);
      if (steps == 0) {
        auto loader = Loader::open(dataset, view).value();
        ASSERT_TRUE(loader.restore(state).ok());
        ASSERT_EQ(loader.state(), state);
        continue;
      }
      const auto stored = LoaderState::parse(state.to_json().dump()).value();
      const auto part = global_rows(dataset, view, steps, &stored, &state);
      rows.insert(rows.end(), part.begin(), part.end());
      ASSERT_EQ(state.position, rows.size());
    }
    rows.resize(500);
    ASSERT_TRUE(std::equal(rows.begin(), rows.end(), straight.begin()));
  }
}

TEST(Loader, StateInTheMiddleOfAStepIsTheStateBeforeIt) {
  LoaderOptions two = options();
  two.micro_batches = 2;
  auto loader = Loader::open(blend(), two).value();
  const LoaderState before = loader.state();
  ASSERT_TRUE(loader.next().ok());
  EXPECT_EQ(loader.state(), before);
  ASSERT_TRUE(loader.next().ok());
  EXPECT_EQ(loader.state().position, 4u);
  EXPECT_NE(loader.state().consumed_hash, before.consumed_hash);
}

// Equal global batches leave equal hashes however they are dealt; another order leaves another one.
TEST(Loader, ConsumedHashProvesTheOrder) {
  LoaderState one, many, other;
  (void)global_rows(blend(), options(6), 5, nullptr, &one);
  LoaderOptions view = options(1);
  view.data_world = 3;
  view.micro_batches = 2;
  (void)global_rows(blend(), view, 5, nullptr, &many);
  EXPECT_EQ(one.consumed_hash, many.consumed_hash);
  LoaderOptions seeded = options(6);
  seeded.seed = 12;
  (void)global_rows(blend(), seeded, 5, nullptr, &other);
  EXPECT_NE(one.consumed_hash, other.consumed_hash);
}

TEST(Loader, LongerRowsJoinWholeBlocks) {
  const auto dataset = blend();
  LoaderOptions longer = options(1);
  longer.block_tokens = 16;
  longer.seq_len = 48;
  auto loader = Loader::open(dataset, longer).value();
  auto blocks = Loader::open(dataset, options(1)).value();
  for (int i = 0; i < 5; ++i) {
    const Batch row = loader.next().value();
    for (std::size_t b = 0; b < 3; ++b) {
      const Batch block = blocks.next().value();
      for (std::size_t j = 0; j < 16; ++j) {
        ASSERT_EQ(row.tokens()[16 * b + j], block.tokens()[j]);
        ASSERT_EQ(row.targets()[16 * b + j], block.targets()[j]);
        ASSERT_EQ(row.positions()[16 * b + j], block.positions()[j])
            << "block borders count as document borders";
      }
    }
    EXPECT_EQ(row.cursor.position, static_cast<std::uint64_t>(3 * i));
  }
  longer.seq_len = 40;
  const auto bad = Loader::open(dataset, longer);
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("nearest: 32 or 48"), std::string::npos)
      << bad.error().message;
}

TEST(Loader, ChangingTheLengthMidRunRepeatsNothing) {
  const auto dataset = Dataset::from_members({{"a", make_mock_source(1, 20000, 50), 1}});
  std::set<std::uint64_t> units;
  LoaderOptions view = options(2);
  view.block_tokens = 16;
  auto loader = Loader::open(dataset, view).value();
  for (int i = 0; i < 50; ++i) {
    const Batch batch = loader.next().value();
    for (const SampleKey& key : batch.keys) EXPECT_TRUE(units.insert(key.unit).second);
  }
  const LoaderState state = loader.state();
  view.seq_len = 64;
  auto longer = Loader::open(dataset, view).value();
  ASSERT_TRUE(longer.restore(state).ok());
  auto rest = Loader::open(dataset, options(1)).value();
  ASSERT_TRUE(rest.restore(state).ok());
  const Batch first_long = longer.next().value();
  EXPECT_EQ(first_long.keys[0], rest.next()->keys[0]);
  for (int i = 0; i < 3; ++i) (void)rest.next().value();
  EXPECT_EQ(first_long.keys[1], rest.next()->keys[0]);
}

TEST(Loader, WeightChangeKeepsWhatWasSeen) {
  const auto before = blend();
  auto loader = Loader::open(before, options()).value();
  for (int i = 0; i < 10; ++i) (void)loader.next().value();
  const LoaderState state = loader.state();
  std::vector<DatasetMember> members = before->members();
  members[0].weight = 1;
  members[1].weight = 7;
  const auto after = Dataset::from_members(members);
  auto changed = Loader::open(after, options()).value();
  ASSERT_TRUE(changed.restore(state).ok());
  const LoaderState now = changed.state();
  ASSERT_EQ(now.weights_history.size(), 2u);
  EXPECT_EQ(now.weights_history[1], (LoaderState::WeightChange{20, {1, 7}}));
  // Eight rows hold the weights' share, and a chain of resumes keeps both entries.
  int of_b = 0;
  for (int i = 0; i < 4; ++i) {
    const Batch batch = changed.next().value();
    for (const SampleKey& key : batch.keys) of_b += key.member == 1 ? 1 : 0;
  }
  EXPECT_EQ(of_b, 7);
  auto again = Loader::open(after, options()).value();
  ASSERT_TRUE(again.restore(changed.state()).ok());
  EXPECT_EQ(again.state(), changed.state());
  EXPECT_EQ(row_text(again.next().value(), 0), row_text(changed.next().value(), 0));
}

TEST(Loader, RefusesAStateThatDoesNotFit) {
  auto loader = Loader::open(blend(), options()).value();
  const LoaderState good = loader.state();
  const auto refused = [&](auto change) {
    LoaderState state = good;
    change(state);
    return !loader.restore(state).ok();
  };
  EXPECT_TRUE(refused([](LoaderState& s) { s.seed = 5; }));
  EXPECT_TRUE(refused([](LoaderState& s) { s.block_tokens = 8; }));
  EXPECT_TRUE(refused([](LoaderState& s) { s.mode = "megatron"; }));
  EXPECT_TRUE(refused([](LoaderState& s) { s.unit = "document"; }));
  EXPECT_TRUE(refused([](LoaderState& s) { s.skips = {{1, 2}}; }));
  EXPECT_TRUE(refused([](LoaderState& s) { s.plan_hash = std::string(32, '0'); }));
  EXPECT_TRUE(refused([](LoaderState& s) { s.weights_history.clear(); }));
  EXPECT_TRUE(refused([](LoaderState& s) { s.weights_history[0].weights = {0, 0}; }));
  EXPECT_TRUE(refused([](LoaderState& s) { s.weights_history[0].weights = {1}; }));
  EXPECT_TRUE(refused([](LoaderState& s) { s.weights_history[0].position = 3; }));
  LoaderState other = good;
  other.plan_hash = std::string(32, '0');
  EXPECT_TRUE(loader.restore(other, true).ok());
}

TEST(LoaderEval, GivesEachTargetOnceOnAnyNumberOfRanks) {
  const auto dataset = blend();
  const std::uint64_t targets = 1999 + 776;
  for (const std::int64_t world : {1, 2, 5, 8}) {
    for (const int workers : {0, 2}) {
      std::multiset<std::pair<std::uint32_t, std::uint64_t>> seen;
      std::uint64_t loss_tokens = 0, batches = 0;
      for (std::int64_t rank = 0; rank < world; ++rank) {
        LoaderOptions view = options(3);
        view.pass = LoaderOptions::Pass::kEval;
        view.data_world = world;
        view.data_rank = rank;
        view.workers = workers;
        auto loader = Loader::open(dataset, view).value();
        EXPECT_EQ(loader.num_eval_tokens(), targets);
        for (int pass = 0; pass < 2; ++pass) {
          std::uint64_t steps = 0;
          for (auto batch = loader.next(); batch.ok(); batch = loader.next()) {
            ++steps;
            if (pass == 1) continue;
            loss_tokens += batch->num_loss_tokens;
            for (std::size_t row = 0; row < 3; ++row) {
              const SampleKey& key = batch->keys[row];
              for (std::size_t j = 0; j < 16; ++j) {
                if (batch->loss_mask()[16 * row + j] == 0) continue;
                ASSERT_NE(key.member, Batch::kFiller);
                seen.emplace(key.member, key.token + j + 1);
              }
            }
          }
          EXPECT_EQ(steps, loader.num_steps());
          EXPECT_EQ(loader.next().error().kind, ErrorKind::kNotFound);
          batches += steps;
          loader.rewind();
        }
      }
      EXPECT_EQ(loss_tokens, targets);
      EXPECT_EQ(seen.size(), targets);
      EXPECT_EQ(
          (std::set<std::pair<std::uint32_t, std::uint64_t>>(seen.begin(), seen.end()).size()),
          targets);
      EXPECT_EQ(batches % static_cast<std::uint64_t>(world), 0u)
          << "ranks run the same number of steps";
    }
  }
}

/// A source whose reads can be made to wait or to fail.
class FaultySource : public TokenSource {
 public:
  std::uint64_t num_tokens() const override { return 100000; }
  std::uint64_t num_documents() const override { return 1; }
  std::uint64_t document_start(std::uint64_t k) const override { return k == 0 ? 0 : num_tokens(); }
  Result<void> read(std::uint64_t, std::span<std::int32_t> out) const override {
    std::unique_lock lock(mutex_);
    const int number = reads_++;
    if (number == fail_at_) return Error{ErrorKind::kIo, "Input/output error", "disk"};
    if (number == throw_at_) throw std::runtime_error("out of luck");
    open_.wait(lock, [&] { return !closed_; });
    std::fill(out.begin(), out.end(), 1);
    return {};
  }
  std::string fingerprint() const override { return "faulty"; }
  void close() const { set(true); }
  void open() const { set(false); }
  int fail_at_ = -1, throw_at_ = -1;

 private:
  void set(bool closed) const {
    const std::lock_guard lock(mutex_);
    closed_ = closed;
    open_.notify_all();
  }
  mutable std::mutex mutex_;
  mutable std::condition_variable open_;
  mutable bool closed_ = false;
  mutable int reads_ = 0;
};

TEST(LoaderFaults, AReadErrorStaysWithItsBatch) {
  for (const int workers : {0, 1, 3}) {
    auto source = std::make_shared<FaultySource>();
    source->fail_at_ = workers == 3 ? 0 : 9;  // two reads a row
    LoaderOptions view = options(1);
    view.workers = workers;
    auto loader = Loader::open(Dataset::from_members({{"f", source, 1}}), view).value();
    Result<Batch> batch = loader.next();
    int given = 0;
    for (; batch.ok() && given < 20; ++given) batch = loader.next();
    ASSERT_FALSE(batch.ok());
    if (workers == 1) {
      EXPECT_EQ(given, 4);
    }
    EXPECT_EQ(batch.error().kind, ErrorKind::kIo);
    if (workers > 0) {
      EXPECT_EQ(loader.next().error().kind, ErrorKind::kIo);
    }
  }
}

TEST(LoaderFaults, NoExceptionCrossesAThread) {
  auto source = std::make_shared<FaultySource>();
  source->throw_at_ = 0;
  LoaderOptions view = options(1);
  view.workers = 1;
  auto loader = Loader::open(Dataset::from_members({{"f", source, 1}}), view).value();
  EXPECT_EQ(loader.next().error().message, "out of luck");
}

TEST(LoaderFaults, AStalledReadIsATimeoutAndTheLoaderStillEnds) {
  auto source = std::make_shared<FaultySource>();
  const auto begin = std::chrono::steady_clock::now();
  {
    LoaderOptions view = options(1);
    view.workers = 2;
    view.stall_timeout = Seconds{0.05};
    auto loader = Loader::open(Dataset::from_members({{"f", source, 1}}), view).value();
    ASSERT_TRUE(loader.next().ok());
    source->close();
    Result<Batch> batch = loader.next();
    for (int i = 0; i < 20 && batch.ok(); ++i) batch = loader.next();
    ASSERT_FALSE(batch.ok());
    EXPECT_EQ(batch.error().kind, ErrorKind::kTimeout);
    EXPECT_NE(batch.error().message.find("is not ready after 50 ms"), std::string::npos)
        << batch.error().message;
    EXPECT_GT(loader.take_wait().value, 0.04);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  source->open();  // lets the workers left behind go
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

TEST(LoaderFaults, ReadAheadIsBounded) {
  auto source = std::make_shared<FaultySource>();
  LoaderOptions view = options(1);
  view.workers = 3;
  view.lookahead_batches = 4;
  view.pool = HostPool::make();
  auto loader = Loader::open(Dataset::from_members({{"f", source, 1}}), view).value();
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(loader.next().ok());
  EXPECT_LE(view.pool->num_allocated(), 4u + 1u);
}

TEST(LoaderFaults, AnIdOutsideTheVocabularyIsAnError) {
  LoaderOptions view = options(1);
  view.vocab_size = 20;
  auto loader = Loader::open(blend(), view).value();
  Result<Batch> batch = loader.next();
  ASSERT_FALSE(batch.ok());
  EXPECT_EQ(batch.error().kind, ErrorKind::kCorrupt);
  EXPECT_NE(batch.error().message.find("outside the vocabulary of 20"), std::string::npos);
}

}  // namespace
}  // namespace sx
