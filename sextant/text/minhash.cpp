#include "sextant/text/minhash.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"
#include "sextant/base/rng.h"
#include "sextant/text/unicode.h"
#include "sextant/text/utf8.h"

namespace sx {

namespace {

/// Finalizer of SplitMix64: a bijection that spreads every bit.
std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

std::string normalize_for_shingles(std::string_view text) {
  const std::string plain = strip_accents(lower_text(text));
  std::string out;
  out.reserve(plain.size());
  bool space = false;
  for (std::size_t pos = 0; pos < plain.size();) {
    const char32_t c = next_code_point(plain, pos);
    if (is_space(c)) {
      space = true;
      continue;
    }
    const CharKind kind = char_kind(c);
    if (kind == CharKind::kPunctuation || kind == CharKind::kSymbol || c == 0) continue;
    if (space && !out.empty()) out += ' ';
    space = false;
    append_utf8(out, c);
  }
  return out;
}

std::vector<std::uint64_t> word_shingles(std::string_view normalized, std::size_t n) {
  std::vector<std::uint64_t> out;
  if (normalized.empty()) return out;
  std::vector<std::size_t> starts{0};
  for (std::size_t i = 0; i < normalized.size(); ++i) {
    if (normalized[i] == ' ') starts.push_back(i + 1);
  }
  if (starts.size() <= n) return {xxh3_64(normalized)};
  for (std::size_t i = 0; i + n <= starts.size(); ++i) {
    const std::size_t end = i + n < starts.size() ? starts[i + n] - 1 : normalized.size();
    out.push_back(xxh3_64(normalized.substr(starts[i], end - starts[i])));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

double jaccard(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  if (a.empty() && b.empty()) return 1;
  std::size_t common = 0;
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    if (a[i] == b[k]) {
      ++common;
      ++i;
      ++k;
    } else if (a[i] < b[k]) {
      ++i;
    } else {
      ++k;
    }
  }
  return static_cast<double>(common) / static_cast<double>(a.size() + b.size() - common);
}

MinHasher::MinHasher(std::size_t bands, std::size_t rows, std::uint64_t seed)
    : bands_(bands), rows_(rows) {
  SX_CHECK(bands > 0 && rows > 0, "{} bands of {} rows", bands, rows);
  const RandomStream stream(seed, "minhash");
  for (std::size_t i = 0; i < bands * rows; ++i) keys_.push_back(stream.u64(i));
}

std::vector<std::uint64_t> MinHasher::signature(const std::vector<std::uint64_t>& shingles) const {
  std::vector<std::uint64_t> out(keys_.size(), std::numeric_limits<std::uint64_t>::max());
  for (const std::uint64_t shingle : shingles) {
    for (std::size_t i = 0; i < keys_.size(); ++i)
      out[i] = std::min(out[i], mix64(shingle ^ keys_[i]));
  }
  return out;
}

std::vector<std::uint64_t> MinHasher::band_keys(const std::vector<std::uint64_t>& shingles) const {
  const std::vector<std::uint64_t> values = signature(shingles);
  std::vector<std::uint64_t> out;
  for (std::size_t band = 0; band < bands_; ++band) {
    const auto* first = reinterpret_cast<const char*>(&values[band * rows_]);
    out.push_back(xxh64({first, rows_ * sizeof(std::uint64_t)}, band));
  }
  return out;
}

double MinHasher::candidate_probability(double similarity) const {
  return 1 - std::pow(1 - std::pow(similarity, static_cast<double>(rows_)),
                      static_cast<double>(bands_));
}

}  // namespace sx
