#include "sextant/data/token_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"
#include "sextant/base/rng.h"

namespace sx {

namespace {

__extension__ using Wide = unsigned __int128;

void check_range(const TokenSource& source, std::uint64_t begin, std::size_t count) {
  SX_CHECK(begin <= source.num_tokens() && count <= source.num_tokens() - begin,
           "tokens {} + {} of {}", begin, count, source.num_tokens());
}

class DocumentRange : public TokenSource {
 public:
  DocumentRange(std::shared_ptr<const TokenSource> whole, std::uint64_t first, std::uint64_t last)
      : whole_(std::move(whole)), first_(first), last_(last) {
    SX_CHECK(first <= last && last <= whole_->num_documents(), "documents {} to {} of {}", first,
             last, whole_->num_documents());
    begin_ = whole_->document_start(first);
    end_ = whole_->document_start(last);
  }
  std::uint64_t num_tokens() const override { return end_ - begin_; }
  std::uint64_t num_documents() const override { return last_ - first_; }
  std::uint64_t document_start(std::uint64_t k) const override {
    SX_CHECK(k <= num_documents(), "document {} of {}", k, num_documents());
    return whole_->document_start(first_ + k) - begin_;
  }
  Result<void> read(std::uint64_t begin, std::span<std::int32_t> out) const override {
    check_range(*this, begin, out.size());
    return whole_->read(begin_ + begin, out);
  }
  std::string fingerprint() const override {
    return fmt::format("{} documents {}-{}", whole_->fingerprint(), first_, last_);
  }

 private:
  std::shared_ptr<const TokenSource> whole_;
  std::uint64_t first_, last_, begin_ = 0, end_ = 0;
};

class MemorySource : public TokenSource {
 public:
  MemorySource(std::vector<std::int32_t> tokens, std::vector<std::uint64_t> starts)
      : tokens_(std::move(tokens)), starts_(std::move(starts)) {
    if (starts_.empty()) starts_.push_back(0);
    SX_CHECK(starts_.front() == 0 && std::is_sorted(starts_.begin(), starts_.end()) &&
                 starts_.back() <= tokens_.size(),
             "document starts of {} tokens", tokens_.size());
    starts_.push_back(tokens_.size());
  }
  std::uint64_t num_tokens() const override { return tokens_.size(); }
  std::uint64_t num_documents() const override { return starts_.size() - 1; }
  std::uint64_t document_start(std::uint64_t k) const override {
    SX_CHECK(k < starts_.size(), "document {} of {}", k, num_documents());
    return starts_[k];
  }
  Result<void> read(std::uint64_t begin, std::span<std::int32_t> out) const override {
    check_range(*this, begin, out.size());
    std::copy_n(tokens_.begin() + static_cast<std::ptrdiff_t>(begin), out.size(), out.begin());
    return {};
  }
  std::string fingerprint() const override {
    const std::string_view ids(reinterpret_cast<const char*>(tokens_.data()), 4 * tokens_.size());
    const std::string_view starts(reinterpret_cast<const char*>(starts_.data()),
                                  8 * starts_.size());
    return fmt::format("memory {} {}", hex64(xxh3_64(ids)), hex64(xxh3_64(starts)));
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::vector<std::uint64_t> starts_;
};

class MockSource : public TokenSource {
 public:
  MockSource(std::uint64_t seed, std::uint64_t num_tokens, std::int32_t vocab_size)
      : stream_(seed, "data.mock"), seed_(seed), vocab_size_(vocab_size) {
    SX_CHECK(vocab_size > 0, "vocabulary of {}", vocab_size);
    std::uint64_t at = 0;
    for (std::uint64_t k = 0; at < num_tokens; ++k) {
      starts_.push_back(at);
      at += std::min(num_tokens - at, 1 + scale(stream_.u64(2 * k + 1), 1000));
    }
    starts_.push_back(num_tokens);
  }
  std::uint64_t num_tokens() const override { return starts_.back(); }
  std::uint64_t num_documents() const override { return starts_.size() - 1; }
  std::uint64_t document_start(std::uint64_t k) const override {
    SX_CHECK(k < starts_.size(), "document {} of {}", k, num_documents());
    return starts_[k];
  }
  Result<void> read(std::uint64_t begin, std::span<std::int32_t> out) const override {
    check_range(*this, begin, out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::uint64_t draw = stream_.u64(2 * (begin + i));
      out[i] = static_cast<std::int32_t>(scale(draw, static_cast<std::uint64_t>(vocab_size_)));
    }
    return {};
  }
  std::string fingerprint() const override {
    return fmt::format("mock {} {} {}", seed_, num_tokens(), vocab_size_);
  }

 private:
  /// A 64-bit draw to [0, count).
  static std::uint64_t scale(std::uint64_t draw, std::uint64_t count) {
    return static_cast<std::uint64_t>((Wide{draw} * count) >> 64);
  }
  RandomStream stream_;
  std::uint64_t seed_;
  std::int32_t vocab_size_;
  std::vector<std::uint64_t> starts_;
};

/// The document border nearest to `token`, the lower one when two are as near.
std::uint64_t nearest_border(const TokenSource& source, std::uint64_t token) {
  std::uint64_t low = 0, high = source.num_documents();  // first border at or behind `token`
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (source.document_start(middle) < token) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return 0;
  const std::uint64_t above = source.document_start(low) - token;
  const std::uint64_t below = token - source.document_start(low - 1);
  return below <= above ? low - 1 : low;
}

}  // namespace

std::uint64_t TokenSource::document_at(std::uint64_t token) const {
  std::uint64_t low = 0, high = num_documents();  // last document that starts at or before `token`
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (document_start(middle) <= token) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

std::shared_ptr<const TokenSource> make_document_range(std::shared_ptr<const TokenSource> whole,
                                                       std::uint64_t first, std::uint64_t last) {
  return std::make_shared<DocumentRange>(std::move(whole), first, last);
}

std::shared_ptr<const TokenSource> make_memory_source(std::vector<std::int32_t> tokens,
                                                      std::vector<std::uint64_t> document_starts) {
  return std::make_shared<MemorySource>(std::move(tokens), std::move(document_starts));
}

std::shared_ptr<const TokenSource> make_mock_source(std::uint64_t seed, std::uint64_t num_tokens,
                                                    std::int32_t vocab_size) {
  return std::make_shared<MockSource>(seed, num_tokens, vocab_size);
}

Result<std::vector<std::uint64_t>> parse_split(std::string_view text) {
  const Error bad{
      ErrorKind::kInvalid,
      "a split is 1 to 3 numbers >= 0 with at most nine decimals, one of them above 0, as 969,30,1",
      std::string(text)};
  std::vector<std::uint64_t> parts;
  std::uint64_t sum = 0;
  for (std::string_view rest = text; parts.size() < 4;) {
    const std::size_t comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    std::uint64_t value = 0;
    int decimals = -1, digits = 0;
    for (const char c : word) {
      if (c == '.' && decimals < 0) {
        decimals = 0;
      } else if (c >= '0' && c <= '9' && decimals < 9 && value < 1'000'000'000'000'000'000u) {
        value = 10 * value + static_cast<std::uint64_t>(c - '0');
        decimals += decimals >= 0 ? 1 : 0;
        ++digits;
      } else {
        return bad;
      }
    }
    for (int i = std::max(decimals, 0); i < 9; ++i) {
      if (value > 1'000'000'000'000'000'000u / 10) return bad;
      value *= 10;
    }
    if (digits == 0) return bad;
    parts.push_back(value);
    sum += value;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (parts.size() > 3 || sum == 0) return bad;
  parts.resize(3, 0);
  return parts;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> cut_split(
    const TokenSource& source, const std::vector<std::uint64_t>& parts) {
  Wide sum = 0;
  for (const std::uint64_t part : parts) sum += part;
  SX_CHECK(sum > 0, "a split without parts");
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  std::uint64_t first = 0;
  Wide before = 0;
  for (const std::uint64_t part : parts) {
    before += part;
    const Wide token = (2 * Wide{source.num_tokens()} * before + sum) / (2 * sum);
    const std::uint64_t last =
        before == sum ? source.num_documents()
                      : std::max(first, nearest_border(source, static_cast<std::uint64_t>(token)));
    ranges.emplace_back(first, last);
    first = last;
  }
  return ranges;
}

}  // namespace sx
