#include "sextant/token/bpe_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "sextant/base/check.h"
#include "sextant/base/fs.h"
#include "sextant/base/hash.h"
#include "sextant/token/byte_hash.h"
#include "sextant/token/little_endian.h"

namespace sx {
namespace {

constexpr std::uint32_t kNone = 0xffffffff;
constexpr std::string_view kStateMagic = "SXBT0001";

using PairKey = std::uint64_t;
constexpr PairKey pair_key(TokenId left, TokenId right) {
  return static_cast<PairKey>(left) << 32 | right;
}
constexpr TokenId left_of(PairKey key) { return static_cast<TokenId>(key >> 32); }
constexpr TokenId right_of(PairKey key) { return static_cast<TokenId>(key & 0xffffffff); }

struct PairHash {
  std::size_t operator()(PairKey key) const { return mix64(key, 0x9E3779B97F4A7C15u); }
};

// Reads integers front to back; after the first that is not there everything is 0 and `ok` is
// false.
struct StateReader {
  std::string_view bytes;
  bool ok = true;

  template <class Int>
  Int get() {
    if (!ok || bytes.size() < sizeof(Int)) {
      ok = false;
      return 0;
    }
    const Int value = read_int<Int>(bytes, 0);
    bytes.remove_prefix(sizeof(Int));
    return value;
  }
};

}  // namespace

// Words lie as linked positions in flat arrays. Joining a pair at position p makes p the result and
// its right neighbour dead, so an occurrence is named by its left position for ever and stale
// entries are seen by looking.
struct BpeTrainer::State {
  explicit State(const BpeTrainerOptions& o) : options(o) {
    for (const unsigned char byte : gpt2_byte_order())
      add_token(std::string(1, static_cast<char>(byte)));
  }

  struct PairInfo {
    std::uint64_t count = 0;
    std::vector<std::uint32_t> positions;
  };
  struct Candidate {
    std::uint64_t count;
    PairKey pair;
  };

  BpeTrainerOptions options;
  std::vector<std::string> tokens;
  std::unordered_map<std::string, TokenId> id_of;
  std::vector<Merge> merges;

  std::vector<std::uint64_t> weights;  // per word
  std::vector<std::uint32_t> starts;   // per word: its first position
  std::vector<TokenId> ids;            // per position; kNone = dead
  std::vector<std::uint32_t> prev, next, word;

  std::unordered_map<PairKey, PairInfo, PairHash> pairs;
  std::vector<Candidate> heap;  // lazy: an entry counts only while its count is the pair's
  bool finished = false;

  TokenId add_token(std::string bytes) {
    const auto [at, is_new] = id_of.emplace(bytes, static_cast<TokenId>(tokens.size()));
    if (is_new) tokens.push_back(std::move(bytes));
    return at->second;
  }

  void add_word(std::uint64_t weight, std::span<const TokenId> word_ids) {
    SX_CHECK(ids.size() + word_ids.size() < kNone,
             "the different pieces hold more than 2^32 - 1 bytes");
    const auto first = static_cast<std::uint32_t>(ids.size());
    const auto last = static_cast<std::uint32_t>(first + word_ids.size() - 1);
    for (std::uint32_t p = first; p <= last; ++p) {
      ids.push_back(word_ids[p - first]);
      prev.push_back(p == first ? kNone : p - 1);
      next.push_back(p == last ? kNone : p + 1);
      word.push_back(static_cast<std::uint32_t>(weights.size()));
    }
    starts.push_back(first);
    weights.push_back(weight);
  }

  bool comes_later(const Candidate& a, const Candidate& b) const {
    if (a.count != b.count) return a.count < b.count;
    if (options.tie == TieRule::kSmallestIds) return a.pair > b.pair;
    const int order = tokens[left_of(a.pair)].compare(tokens[left_of(b.pair)]);
    if (order != 0) return order < 0;
    return tokens[right_of(a.pair)] < tokens[right_of(b.pair)];
  }
  void push_candidate(PairKey pair, std::uint64_t count) {
    heap.push_back({count, pair});
    std::push_heap(heap.begin(), heap.end(),
                   [this](const auto& a, const auto& b) { return comes_later(a, b); });
  }
  Candidate pop_candidate() {
    std::pop_heap(heap.begin(), heap.end(),
                  [this](const auto& a, const auto& b) { return comes_later(a, b); });
    const Candidate top = heap.back();
    heap.pop_back();
    return top;
  }

  // Counts and occurrences of all pairs from the words, and the heap over them.
  void index_pairs() {
    for (std::uint32_t p = 0; p < ids.size(); ++p) {
      if (ids[p] == kNone || next[p] == kNone) continue;
      PairInfo& info = pairs[pair_key(ids[p], ids[next[p]])];
      info.count += weights[word[p]];
      info.positions.push_back(p);
    }
    heap.clear();
    for (const auto& [pair, info] : pairs) heap.push_back({info.count, pair});
    std::make_heap(heap.begin(), heap.end(),
                   [this](const auto& a, const auto& b) { return comes_later(a, b); });
  }

  void drop(TokenId left, TokenId right, std::uint64_t weight) {
    const auto at = pairs.find(pair_key(left, right));
    SX_DCHECK(at != pairs.end() && at->second.count >= weight, "a pair's count fell below 0");
    at->second.count -= weight;
  }
  void gain(TokenId left, TokenId right, std::uint32_t pos, std::uint64_t weight,
            std::vector<PairKey>& grown) {
    const PairKey key = pair_key(left, right);
    PairInfo& info = pairs[key];
    info.count += weight;
    info.positions.push_back(pos);
    grown.push_back(key);
  }

  // Joins every occurrence of the pair, left to right.
  void apply(PairKey pair, TokenId result) {
    const TokenId left = left_of(pair), right = right_of(pair);
    std::vector<std::uint32_t> positions = std::move(pairs[pair].positions);
    pairs[pair].positions = {};
    std::sort(positions.begin(), positions.end());
    std::vector<PairKey> grown;
    for (const std::uint32_t p : positions) {
      if (ids[p] != left || next[p] == kNone || ids[next[p]] != right) continue;
      const std::uint32_t q = next[p], after = next[q], before = prev[p];
      const std::uint64_t weight = weights[word[p]];
      drop(left, right, weight);
      if (before != kNone) drop(ids[before], left, weight);
      if (after != kNone) drop(right, ids[after], weight);
      ids[p] = result;
      ids[q] = kNone;
      next[p] = after;
      if (after != kNone) prev[after] = p;
      if (before != kNone) gain(ids[before], result, before, weight, grown);
      if (after != kNone) gain(result, ids[after], p, weight, grown);
    }
    std::sort(grown.begin(), grown.end());
    grown.erase(std::unique(grown.begin(), grown.end()), grown.end());
    for (const PairKey key : grown) push_candidate(key, pairs[key].count);
    if (const auto at = pairs.find(pair); at != pairs.end() && at->second.count == 0)
      pairs.erase(at);
  }

  std::size_t num_ordinary_wanted() const {
    return options.vocab_size > options.specials.size()
               ? options.vocab_size - options.specials.size()
               : 0;
  }
};

BpeTrainer::BpeTrainer(std::unique_ptr<State> state) : state_(std::move(state)) {}
BpeTrainer::~BpeTrainer() = default;
BpeTrainer::BpeTrainer(BpeTrainer&&) noexcept = default;
BpeTrainer& BpeTrainer::operator=(BpeTrainer&&) noexcept = default;

BpeTrainer::BpeTrainer(const BpeTrainerOptions& options, const std::vector<PieceCount>& counts)
    : state_(std::make_unique<State>(options)) {
  State& s = *state_;
  TokenId byte_ids[256];
  for (TokenId id = 0; id < 256; ++id) byte_ids[gpt2_byte_order()[id]] = id;
  std::vector<TokenId> word_ids;
  for (const PieceCount& entry : counts) {
    if (entry.piece.empty() || entry.count == 0) continue;
    word_ids.clear();
    for (const char c : entry.piece) word_ids.push_back(byte_ids[static_cast<unsigned char>(c)]);
    s.add_word(entry.count, word_ids);
  }
  s.index_pairs();
}

bool BpeTrainer::step() {
  State& s = *state_;
  while (!s.finished) {
    if (s.tokens.size() >= s.num_ordinary_wanted() || s.heap.empty()) break;
    const State::Candidate top = s.pop_candidate();
    const auto at = s.pairs.find(top.pair);
    const std::uint64_t count = at == s.pairs.end() ? 0 : at->second.count;
    if (count != top.count) {
      if (count != 0) s.push_candidate(top.pair, count);
      continue;
    }
    if (count == 0 || count < s.options.min_frequency) {
      if (count != 0) break;
      if (at != s.pairs.end()) s.pairs.erase(at);
      continue;
    }
    const TokenId left = left_of(top.pair), right = right_of(top.pair);
    if (s.tokens[left].size() + s.tokens[right].size() > s.options.max_token_length) continue;
    const TokenId result = s.add_token(s.tokens[left] + s.tokens[right]);
    s.merges.push_back({left, right, result, count});
    s.apply(top.pair, result);
    return true;
  }
  s.finished = true;
  return false;
}

const std::vector<Merge>& BpeTrainer::merges() const { return state_->merges; }

std::size_t BpeTrainer::target_merges() const {
  const std::size_t wanted = state_->num_ordinary_wanted();
  return wanted > 256 ? wanted - 256 : 0;
}

std::size_t BpeTrainer::unique_pieces() const { return state_->weights.size(); }

std::uint64_t BpeTrainer::total_tokens() const {
  std::uint64_t total = 0;
  for (std::size_t p = 0; p < state_->ids.size(); ++p) {
    if (state_->ids[p] != kNone) total += state_->weights[state_->word[p]];
  }
  return total;
}

Result<Vocab> BpeTrainer::vocab() const {
  std::vector<SpecialToken> specials;
  auto id = static_cast<TokenId>(state_->tokens.size());
  for (const std::string& text : state_->options.specials) specials.push_back({text, id++});
  return Vocab::make(state_->tokens, std::move(specials), state_->options.split);
}

Result<void> BpeTrainer::save_state(const std::filesystem::path& path,
                                    const std::string& tag) const {
  const State& s = *state_;
  std::string out(kStateMagic);
  append_int<std::uint32_t>(out, static_cast<std::uint32_t>(tag.size()));
  out += tag;
  append_int<std::uint64_t>(out, s.merges.size());
  for (const Merge& merge : s.merges) {
    append_int<std::uint32_t>(out, merge.left);
    append_int<std::uint32_t>(out, merge.right);
    append_int<std::uint64_t>(out, merge.count);
  }
  append_int<std::uint64_t>(out, s.weights.size());
  for (std::size_t w = 0; w < s.weights.size(); ++w) {
    append_int<std::uint64_t>(out, s.weights[w]);
    const std::size_t length_at = out.size();
    append_int<std::uint32_t>(out, 0);
    std::uint32_t length = 0;
    for (std::uint32_t p = s.starts[w]; p != kNone; p = s.next[p], ++length)
      append_int<std::uint32_t>(out, s.ids[p]);
    for (int i = 0; i < 4; ++i) out[length_at + i] = static_cast<char>(length >> (8 * i) & 0xff);
  }
  append_int<std::uint64_t>(out, xxh3_64(out));
  return write_file_atomic(path, out);
}

Result<BpeTrainer> BpeTrainer::load_state(const std::filesystem::path& path,
                                          const BpeTrainerOptions& options,
                                          const std::string& tag) {
  const auto fail = [&](const char* what) {
    return Error{ErrorKind::kCorrupt, what, path.string()};
  };
  SX_TRY(const std::string file, read_file(path));
  if (file.size() < kStateMagic.size() + 8 || !file.starts_with(kStateMagic))
    return fail("not a saved state of training");
  const std::string_view body = std::string_view(file).substr(0, file.size() - 8);
  StateReader checksum{std::string_view(file).substr(file.size() - 8)};
  if (xxh3_64(body) != checksum.get<std::uint64_t>())
    return fail("the checksum of the saved state is wrong");
  StateReader in{body.substr(kStateMagic.size())};
  const auto tag_size = in.get<std::uint32_t>();
  if (in.bytes.size() < tag_size) return fail("the saved state is cut short");
  if (in.bytes.substr(0, tag_size) != tag) {
    return Error{ErrorKind::kInvalid, "the saved state is of other inputs or options",
                 path.string()};
  }
  in.bytes.remove_prefix(tag_size);

  auto state = std::make_unique<State>(options);
  for (auto left_over = in.get<std::uint64_t>(); in.ok && left_over != 0; --left_over) {
    Merge merge;
    merge.left = in.get<std::uint32_t>();
    merge.right = in.get<std::uint32_t>();
    merge.count = in.get<std::uint64_t>();
    if (!in.ok || std::max(merge.left, merge.right) >= state->tokens.size())
      return fail("a saved merge is impossible");
    merge.result = state->add_token(state->tokens[merge.left] + state->tokens[merge.right]);
    state->merges.push_back(merge);
  }
  std::vector<TokenId> word_ids;
  for (auto left_over = in.get<std::uint64_t>(); in.ok && left_over != 0; --left_over) {
    const auto weight = in.get<std::uint64_t>();
    const auto length = in.get<std::uint32_t>();
    if (!in.ok || length == 0 || in.bytes.size() / 4 < length)
      return fail("a saved word is impossible");
    word_ids.clear();
    for (std::uint32_t i = 0; i < length; ++i) word_ids.push_back(in.get<std::uint32_t>());
    if (*std::max_element(word_ids.begin(), word_ids.end()) >= state->tokens.size()) {
      return fail("a saved word is impossible");
    }
    state->add_word(weight, word_ids);
  }
  if (!in.ok || !in.bytes.empty()) return fail("the saved state is cut short");
  state->index_pairs();
  return BpeTrainer(std::move(state));
}

}  // namespace sx
