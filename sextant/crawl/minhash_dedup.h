#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sextant/text/minhash.h"

namespace sx {

/// Which document of a cluster of near-duplicates stays.
enum class KeepRule { kFirst, kRandom, kLongest };

struct NearDuplicateOptions {
  std::size_t bands = 14;
  std::size_t rows = 8;
  std::size_t words = 5;  ///< of a shingle
  double jaccard = 0.8;   ///< true similarity from which two documents are one
  std::uint64_t seed = 0;
  KeepRule keep = KeepRule::kFirst;
};

/// What the search does with one document, computed by any thread.
struct DocumentSketch {
  std::vector<std::uint64_t> shingles;  ///< sorted, each once
  std::vector<std::uint64_t> keys;      ///< one a band
  std::uint64_t bytes = 0;              ///< of the text
};

struct NearDuplicateReport {
  std::uint64_t documents = 0, clusters = 0, dropped = 0;
  std::uint64_t candidates = 0;   ///< pairs whose similarity was computed
  std::uint64_t verified = 0;     ///< of them, pairs at or above the threshold
  std::uint64_t leader_caps = 0;  ///< documents that found a bucket's leaders full
};

/// Near-duplicates in memory: MinHash candidates verified by the true similarity of their shingles,
/// clustered by union-find.
///
/// In a bucket a document is compared with up to 16 leaders, the first ones that resembled no
/// earlier leader, so a bucket of a million equal documents costs a million comparisons. The result
/// is a function of the documents in their order and the options; who computed the sketches, and
/// how many threads did, does not matter.
/// Memory: 8 bytes a shingle and a band.
class NearDuplicates {
 public:
  explicit NearDuplicates(const NearDuplicateOptions& options);

  DocumentSketch sketch(std::string_view text) const;  ///< thread-safe
  /// The next document in order; `id` decides for KeepRule::kRandom.
  void add(DocumentSketch sketch, std::uint64_t id);
  /// For each document in order: true = it stays.
  std::vector<bool> finish();
  const NearDuplicateReport& report() const { return report_; }

 private:
  void search_bucket(const std::vector<std::uint32_t>& documents);
  std::uint32_t root_of(std::uint32_t document);

  NearDuplicateOptions options_;
  MinHasher hasher_;
  std::vector<DocumentSketch> documents_;
  std::vector<std::uint64_t> ids_;
  std::vector<std::uint32_t> parent_;
  NearDuplicateReport report_;
};

}  // namespace sx
