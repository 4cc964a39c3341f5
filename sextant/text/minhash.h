#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sx {

/// Text as near-duplicate search compares it: lower case, canonical decomposition without accents
/// (Mn), punctuation and symbols removed, white space collapsed to single spaces, none at the ends.
std::string normalize_for_shingles(std::string_view text);

/// Hashes (XXH3-64) of all runs of `n` words of a normalized text, sorted, each once. A text of
/// fewer words gives one shingle, the whole of it; an empty text gives none.
std::vector<std::uint64_t> word_shingles(std::string_view normalized, std::size_t n);

/// |a and b| / |a or b| of two sorted sets; 1 for two empty ones.
double jaccard(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b);

/// Signature and bands of MinHash with locality-sensitive hashing.
///
/// h_i(x) = mix64(x ^ k_i), k_i drawn from the stream "minhash" of `seed`; the signature is the
/// least h_i over the shingles. A pair of similarity s shares a band with probability
/// 1 - (1 - s^rows)^bands.
/// Source: Broder 1997; Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, chapter 3.
class MinHasher {
 public:
  MinHasher(std::size_t bands, std::size_t rows, std::uint64_t seed);

  std::size_t bands() const { return bands_; }
  std::size_t rows() const { return rows_; }
  /// bands x rows values.
  std::vector<std::uint64_t> signature(const std::vector<std::uint64_t>& shingles) const;
  /// One key a band: equal for equal rows of the signature; no band shares keys with another.
  std::vector<std::uint64_t> band_keys(const std::vector<std::uint64_t>& shingles) const;
  /// The formula above.
  double candidate_probability(double similarity) const;

 private:
  std::size_t bands_;
  std::size_t rows_;
  std::vector<std::uint64_t> keys_;
};

}  // namespace sx
