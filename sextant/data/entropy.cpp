#include "sextant/data/entropy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>
#include <vector>

#include "sextant/base/check.h"

namespace sx {

namespace {

constexpr std::size_t kChunk = 1 << 16;

/// Calls visit(previous, token) for each token of the stream but the first, in order.
Result<void> each_pair(const TokenSource& source, std::int64_t vocab_size,
                       const std::function<void(std::uint32_t, std::uint32_t)>& visit) {
  std::vector<std::int32_t> chunk;
  std::uint32_t previous = 0;
  for (std::uint64_t at = 0; at < source.num_tokens(); at += chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(kChunk, source.num_tokens() - at));
    SX_TRY_VOID(source.read(at, chunk));
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      if (chunk[i] < 0 || chunk[i] >= vocab_size) {
        return Error{ErrorKind::kInvalid,
                     fmt::format("id {} outside the vocabulary of {}", chunk[i], vocab_size),
                     fmt::format("token {}", at + i)};
      }
      const auto token = static_cast<std::uint32_t>(chunk[i]);
      if (at + i > 0) visit(previous, token);
      previous = token;
    }
  }
  return {};
}

std::uint64_t pair_key(std::uint32_t previous, std::uint32_t token) {
  return std::uint64_t{previous} << 32 | token;
}

struct Counts {
  std::vector<double> token;        ///< c(w), all tokens of the stream
  std::vector<double> as_previous;  ///< c(v .)
  std::vector<double> followers;    ///< t(v)
  std::unordered_map<std::uint64_t, double> pairs;
  double total = 0;
};

Result<Counts> count(const TokenSource& train, std::int64_t vocab_size) {
  Counts counts;
  const auto size = static_cast<std::size_t>(vocab_size);
  counts.token.resize(size);
  counts.as_previous.resize(size);
  counts.followers.resize(size);
  if (train.num_tokens() > 0) {
    std::vector<std::int32_t> first(1);
    SX_TRY_VOID(train.read(0, first));
    if (first[0] >= 0 && first[0] < vocab_size) ++counts.token[static_cast<std::size_t>(first[0])];
  }
  SX_TRY_VOID(each_pair(train, vocab_size, [&](std::uint32_t previous, std::uint32_t token) {
    ++counts.token[token];
    ++counts.as_previous[previous];
    if (counts.pairs[pair_key(previous, token)]++ == 0) ++counts.followers[previous];
  }));
  counts.total = static_cast<double>(train.num_tokens());
  return counts;
}

}  // namespace

Result<EntropyReport> measure_entropy(const TokenSource& train, const TokenSource& heldout,
                                      std::int64_t vocab_size) {
  SX_CHECK(vocab_size > 0, "vocabulary of {}", vocab_size);
  if (heldout.num_tokens() < 2) {
    return Error{ErrorKind::kInvalid,
                 fmt::format("{} held-out tokens; entropy takes two", heldout.num_tokens()), ""};
  }
  SX_TRY(const Counts counts, count(train, vocab_size));
  EntropyReport report;
  report.train_tokens = train.num_tokens();
  report.tokens = heldout.num_tokens() - 1;
  std::vector<double> own(static_cast<std::size_t>(vocab_size));
  double unigram = 0, bigram = 0;
  SX_TRY_VOID(each_pair(heldout, vocab_size, [&](std::uint32_t previous, std::uint32_t token) {
    ++own[token];
    const double p1 = (counts.token[token] + 1) / (counts.total + static_cast<double>(vocab_size));
    unigram -= std::log(p1);
    const double types = counts.followers[previous];
    double p2 = p1;
    if (types > 0) {
      const auto found = counts.pairs.find(pair_key(previous, token));
      const double seen = found == counts.pairs.end() ? 0 : found->second;
      p2 = (seen + types * p1) / (counts.as_previous[previous] + types);
    }
    bigram -= std::log(p2);
  }));
  const auto tokens = static_cast<double>(report.tokens);
  for (const double n : own) {
    if (n > 0) report.unigram_nats -= n / tokens * std::log(n / tokens);
  }
  report.unigram_cross_nats = unigram / tokens;
  report.bigram_nats = bigram / tokens;
  return report;
}

}  // namespace sx
