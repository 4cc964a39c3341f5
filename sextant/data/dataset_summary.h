#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/base/result.h"
#include "sextant/data/indexed_dataset.h"

namespace sx {

/// What `data inspect` shows of one pair.
struct DatasetSummary {
  std::string prefix;
  std::string type;  ///< "uint16" ...
  std::uint64_t idx_bytes = 0;
  std::uint64_t bin_bytes = 0;
  bool has_modes = false;
  IndexedDataset::Structure structure;
  std::uint64_t num_sequences = 0;
  std::uint64_t num_documents = 0;
  std::uint64_t empty_documents = 0;
  std::uint64_t min_length = 0;     ///< of documents, in tokens
  std::uint64_t median_length = 0;  ///< the lower one of two
  std::uint64_t max_length = 0;
  /// Documents of 0 tokens, 1, 2-3, 4-7 ... : entry b > 0 counts lengths in [2^(b-1), 2^b).
  std::vector<std::uint64_t> length_histogram;
  std::int32_t last_token =
      -1;  ///< most frequent last token of documents (the lowest of equals); -1 without tokens
  double last_token_share = 0;  ///< of the documents with tokens
  std::int32_t max_token = -1;  ///< largest id; only with `read_tokens`

  nlohmann::ordered_json to_json() const;
  /// A few lines for people, each ended.
  std::string to_text() const;
};

/// Checks the structure and counts; `read_tokens` reads every token for the largest id. Memory: 8
/// bytes per document. Errors: kCorrupt.
Result<DatasetSummary> summarize_dataset(const IndexedDataset& dataset, bool read_tokens);

}  // namespace sx
