#include "sextant/token/bpe_trainer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/rng.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

// Without the syncs of write_file_atomic.
void write_quickly(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

using Step = std::tuple<std::string, std::string, std::uint64_t>;  // left, right, count

std::vector<PieceCount> count_pieces(const std::vector<std::string>& texts,
                                     SplitFamily split = SplitFamily::kR50k,
                                     std::size_t threads = 1) {
  PieceCounter counter(split);
  ThreadPool pool(threads);
  EXPECT_TRUE(counter.add(texts, pool).ok());
  return counter.take_sorted();
}

BpeTrainerOptions plain_options() {
  BpeTrainerOptions options;
  options.vocab_size = 2000;
  options.min_frequency = 1;
  options.split = SplitFamily::kR50k;
  options.specials = {};
  return options;
}

std::vector<Step> steps_of(BpeTrainer& trainer) {
  while (trainer.step()) {
  }
  const Vocab vocab = trainer.vocab().value();
  std::vector<Step> steps;
  for (const Merge& merge : trainer.merges()) {
    EXPECT_EQ(std::string(vocab.token(merge.result)),
              std::string(vocab.token(merge.left)) + std::string(vocab.token(merge.right)));
    steps.emplace_back(vocab.token(merge.left), vocab.token(merge.right), merge.count);
  }
  return steps;
}

// The definition: all counts anew before every merge.
std::vector<Step> recount(const BpeTrainerOptions& options, const std::vector<PieceCount>& counts) {
  std::vector<std::string> tokens;
  std::map<std::string, TokenId> id_of;
  for (const unsigned char b : gpt2_byte_order()) {
    id_of[std::string(1, static_cast<char>(b))] = static_cast<TokenId>(tokens.size());
    tokens.emplace_back(1, static_cast<char>(b));
  }
  std::vector<std::pair<std::vector<TokenId>, std::uint64_t>> words;
  for (const PieceCount& entry : counts) {
    std::vector<TokenId> ids;
    for (const char c : entry.piece) ids.push_back(id_of[std::string(1, c)]);
    words.emplace_back(ids, entry.count);
  }
  std::vector<Step> steps;
  while (tokens.size() + options.specials.size() < options.vocab_size) {
    std::map<std::pair<TokenId, TokenId>, std::uint64_t> pairs;
    for (const auto& [ids, count] : words) {
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) pairs[{ids[i], ids[i + 1]}] += count;
    }
    std::pair<TokenId, TokenId> best{0, 0};
    std::uint64_t best_count = 0;
    for (const auto& [pair, count] : pairs) {
      if (tokens[pair.first].size() + tokens[pair.second].size() > options.max_token_length)
        continue;
      const auto bytes = [&](const auto& p) {
        return std::make_pair(tokens[p.first], tokens[p.second]);
      };
      const bool wins_tie = options.tie == TieRule::kGreatestBytes && count == best_count &&
                            bytes(pair) > bytes(best);
      if (count > best_count ||
          wins_tie) {  // the map ascends by ids, so the first of equals has the smallest
        best = pair;
        best_count = count;
      }
    }
    if (best_count == 0 || best_count < options.min_frequency) break;
    steps.emplace_back(tokens[best.first], tokens[best.second], best_count);
    const std::string joined = tokens[best.first] + tokens[best.second];
    const auto [at, is_new] = id_of.emplace(joined, static_cast<TokenId>(tokens.size()));
    if (is_new) tokens.push_back(joined);
    for (auto& [ids, count] : words) {
      std::vector<TokenId> next;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (i + 1 < ids.size() && ids[i] == best.first && ids[i + 1] == best.second) {
          next.push_back(at->second);
          ++i;
        } else {
          next.push_back(ids[i]);
        }
      }
      ids = next;
    }
  }
  return steps;
}

std::vector<PieceCount> random_counts(std::uint64_t seed, std::uint64_t idx) {
  const RandomStream stream(seed, "corpus", idx);
  std::map<std::string, std::uint64_t> counts;
  const std::size_t words = 1 + stream.u64(0) % 12;
  for (std::size_t w = 0; w < words; ++w) {
    std::string piece;
    const std::size_t length = 1 + stream.u64(100 + w) % 12;
    for (std::size_t i = 0; i < length; ++i)
      piece += static_cast<char>('a' + stream.u64(1000 + w * 20 + i) % (2 + idx % 3));
    counts[piece] += 1 + stream.u64(500 + w) % 5;
  }
  std::vector<PieceCount> list;
  for (const auto& [piece, count] : counts) list.push_back({piece, count});
  return list;
}

TEST(BpeTrainer, Lowest) {
  BpeTrainer trainer(
      plain_options(),
      count_pieces(
          {"low low low low low lower lower widest widest widest newest newest newest newest "
           "newest newest"}));
  const std::vector<Step> expected = {{"e", "s", 9},   {"es", "t", 9},   {"l", "o", 7},
                                      {"lo", "w", 7},  {"e", "w", 6},    {"n", "ew", 6},
                                      {" ", "low", 6}, {" ", "new", 6},  {" new", "est", 6},
                                      {"d", "est", 3}, {"i", "dest", 3}, {"w", "idest", 3}};
  std::vector<Step> steps = steps_of(trainer);
  ASSERT_GE(steps.size(), expected.size());
  steps.resize(expected.size());
  EXPECT_EQ(steps, expected);
}

TEST(BpeTrainer, OverlappingPairs) {
  BpeTrainer trainer(plain_options(), count_pieces({"aaaa aaaaa aaa aa baaab"}));
  EXPECT_EQ(steps_of(trainer), (std::vector<Step>{{"a", "a", 12},
                                                  {" ", "aa", 3},
                                                  {"aa", "a", 2},
                                                  {"b", "aaa", 1},
                                                  {" ", "baaa", 1},
                                                  {"aa", "aa", 1},
                                                  {" aa", "a", 1},
                                                  {" aa", "aaa", 1},
                                                  {" baaa", "b", 1}}));
}

TEST(BpeTrainer, EqualsFullRecount) {
  const std::uint64_t seed = 99;
  for (const TieRule tie : {TieRule::kSmallestIds, TieRule::kGreatestBytes}) {
    for (std::uint64_t i = 0; i < 400; ++i) {
      BpeTrainerOptions options = plain_options();
      options.tie = tie;
      options.min_frequency = 1 + i % 3;
      options.max_token_length = i % 4 == 0 ? 4 : 128;
      options.vocab_size = i % 5 == 0 ? 262 : 300;
      const auto counts = random_counts(seed, i);
      BpeTrainer trainer(options, counts);
      ASSERT_EQ(steps_of(trainer), recount(options, counts)) << "seed " << seed << " corpus " << i;
    }
  }
}

TEST(BpeTrainer, CountsBeyond32Bits) {
  BpeTrainer trainer(plain_options(), {{"ab", 3'000'000'000}, {"abc", 3'000'000'000}});
  EXPECT_EQ(steps_of(trainer),
            (std::vector<Step>{{"a", "b", 6'000'000'000}, {"ab", "c", 3'000'000'000}}));
}

TEST(BpeTrainer, WeightTwoIsTheCorpusTwice) {
  PieceCounter twice(SplitFamily::kCl100k), weighted(SplitFamily::kCl100k);
  ThreadPool pool(2);
  const std::vector<std::string> text = {"one two  three, one two\n"};
  ASSERT_TRUE(twice.add(text, pool).ok());
  ASSERT_TRUE(twice.add(text, pool).ok());
  ASSERT_TRUE(weighted.add(text, pool, 2).ok());
  EXPECT_EQ(twice.take_sorted(), weighted.take_sorted());
}

TEST(BpeTrainer, SpecialTokensComeLast) {
  BpeTrainerOptions options = plain_options();
  options.vocab_size = 260;
  options.specials = {"<|endoftext|>", "<|pad|>"};
  BpeTrainer trainer(options, count_pieces({"aaaa bbbb aaaa bbbb"}));
  while (trainer.step()) {
  }
  const Vocab vocab = trainer.vocab().value();
  EXPECT_EQ(trainer.merges().size(), 2u);
  EXPECT_EQ(trainer.target_merges(), 2u);
  EXPECT_EQ(vocab.vocab_size(), 260u);
  EXPECT_EQ(vocab.special_id("<|endoftext|>"), TokenId{258});
  EXPECT_EQ(vocab.special_id("<|pad|>"), TokenId{259});
}

TEST(BpeTrainer, NothingToLearn) {
  BpeTrainer trainer(plain_options(), {});
  EXPECT_FALSE(trainer.step());
  EXPECT_EQ(trainer.vocab().value().vocab_size(), 256u);
}

TEST(BpeTrainer, GoesOnFromASavedState) {
  TempDir dir;
  for (std::uint64_t i = 0; i < 10; ++i) {
    const auto counts = random_counts(5, i);
    BpeTrainer whole(plain_options(), counts);
    const std::vector<Step> expected = steps_of(whole);
    BpeTrainer first(plain_options(), counts);
    for (std::size_t made = 0; made < expected.size() / 2; ++made) ASSERT_TRUE(first.step());
    ASSERT_TRUE(first.save_state(dir / "state", "tag").ok());
    auto second = BpeTrainer::load_state(dir / "state", plain_options(), "tag");
    ASSERT_TRUE(second.ok()) << second.error().to_string();
    ASSERT_EQ(steps_of(*second), expected) << i;
    EXPECT_EQ(second->total_tokens(), whole.total_tokens());
  }
}

TEST(BpeTrainer, DamagedStatesAreRefused) {
  TempDir dir;
  BpeTrainer trainer(plain_options(), random_counts(5, 1));
  trainer.step();
  ASSERT_TRUE(trainer.save_state(dir / "state", "tag").ok());
  EXPECT_EQ(BpeTrainer::load_state(dir / "state", plain_options(), "other").error().kind,
            ErrorKind::kInvalid);
  EXPECT_EQ(BpeTrainer::load_state(dir / "absent", plain_options(), "tag").error().kind,
            ErrorKind::kNotFound);
  const std::string bytes = read_file(dir / "state").value();
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    write_quickly(dir / "bad", damaged);
    EXPECT_EQ(BpeTrainer::load_state(dir / "bad", plain_options(), "tag").error().kind,
              ErrorKind::kCorrupt)
        << i;
    write_quickly(dir / "bad", bytes.substr(0, i));
    EXPECT_EQ(BpeTrainer::load_state(dir / "bad", plain_options(), "tag").error().kind,
              ErrorKind::kCorrupt)
        << i;
    i += 7;
  }
}

TEST(PieceCounter, ThreadsAndBatchesChangeNothing) {
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const RandomStream stream(1, "texts", i);
    std::string text;
    for (std::size_t w = 0; w < 50; ++w)
      text += " w" + std::to_string(stream.u64(w) % 37) + (w % 7 == 0 ? "\n" : "");
    texts.push_back(text);
  }
  const auto one = count_pieces(texts);
  EXPECT_EQ(count_pieces(texts, SplitFamily::kR50k, 2), one);
  EXPECT_EQ(count_pieces(texts, SplitFamily::kR50k, 4), one);
  PieceCounter counter(SplitFamily::kR50k);
  ThreadPool pool(2);
  for (const std::string& text : texts)
    ASSERT_TRUE(counter.add(std::vector<std::string>{text}, pool).ok());
  EXPECT_GT(counter.memory_bytes(), counter.unique());
  EXPECT_EQ(counter.take_sorted(), one);
  EXPECT_EQ(counter.unique(), 0u);
}

TEST(PieceCounter, RunsAddUp) {
  TempDir dir;
  ASSERT_TRUE(write_count_run(dir / "a", {{"", 5}, {"a", 1}, {"c", 3'000'000'000}}).ok());
  ASSERT_TRUE(write_count_run(dir / "b", {{"a", 2}, {"b", 1}, {"c", 3'000'000'000}}).ok());
  ASSERT_TRUE(write_count_run(dir / "none", {}).ok());
  std::vector<PieceCount> sum;
  const auto collect = [&](std::string_view piece, std::uint64_t count) {
    sum.push_back({std::string(piece), count});
  };
  ASSERT_TRUE(merge_count_runs({dir / "a", dir / "none", dir / "b"}, collect).ok());
  EXPECT_EQ(sum, (std::vector<PieceCount>{{"", 5}, {"a", 3}, {"b", 1}, {"c", 6'000'000'000}}));

  const std::string bytes = read_file(dir / "a").value();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    write_quickly(dir / "bad", bytes.substr(0, i));
    EXPECT_EQ(merge_count_runs({dir / "bad"}, collect).error().kind, ErrorKind::kCorrupt) << i;
  }
}

}  // namespace
}  // namespace sx
