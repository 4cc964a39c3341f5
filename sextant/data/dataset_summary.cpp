#include "sextant/data/dataset_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "sextant/base/units.h"

namespace sx {

namespace {

constexpr std::uint64_t kBarWidth = 40;

std::string range_name(std::size_t bucket) {
  if (bucket < 2) return std::to_string(bucket);
  return fmt::format("{}-{}", std::uint64_t{1} << (bucket - 1), (std::uint64_t{1} << bucket) - 1);
}

/// Lengths of documents and the last token of each that has one.
struct Documents {
  std::vector<std::uint64_t> lengths;
  std::map<std::int32_t, std::uint64_t> last_tokens;
};

Result<Documents> read_documents(const IndexedDataset& dataset) {
  Documents documents;
  for (std::uint64_t k = 0; k < dataset.num_documents(); ++k) {
    std::uint64_t length = 0;
    std::int32_t last = 0;
    const auto end = static_cast<std::uint64_t>(dataset.document_mark(k + 1));
    for (auto i = static_cast<std::uint64_t>(dataset.document_mark(k)); i < end; ++i) {
      const auto tokens = static_cast<std::uint64_t>(dataset.sequence_length(i));
      if (tokens > 0) SX_TRY_VOID(dataset.read_sequence(i, tokens - 1, {&last, 1}));
      length += tokens;
    }
    documents.lengths.push_back(length);
    if (length > 0) ++documents.last_tokens[last];
  }
  return documents;
}

Result<std::int32_t> largest_token(const IndexedDataset& dataset) {
  std::int32_t largest = -1;
  std::vector<std::int32_t> tokens;
  for (std::uint64_t i = 0; i < dataset.num_sequences(); ++i) {
    tokens.resize(static_cast<std::size_t>(dataset.sequence_length(i)));
    SX_TRY_VOID(dataset.read_sequence(i, 0, tokens));
    for (const std::int32_t token : tokens) largest = std::max(largest, token);
  }
  return largest;
}

}  // namespace

Result<DatasetSummary> summarize_dataset(const IndexedDataset& dataset, bool read_tokens) {
  DatasetSummary summary;
  summary.prefix = dataset.prefix();
  summary.type = to_string(dataset.type());
  summary.idx_bytes = dataset.idx_bytes();
  summary.bin_bytes = dataset.bin_bytes();
  summary.has_modes = dataset.has_modes();
  summary.num_sequences = dataset.num_sequences();
  summary.num_documents = dataset.num_documents();
  SX_TRY(summary.structure, dataset.check_structure());
  SX_TRY(Documents documents, read_documents(dataset));
  std::vector<std::uint64_t>& lengths = documents.lengths;
  for (const std::uint64_t length : lengths) {
    const auto bucket = static_cast<std::size_t>(std::bit_width(length));
    if (summary.length_histogram.size() <= bucket) summary.length_histogram.resize(bucket + 1);
    ++summary.length_histogram[bucket];
  }
  if (!lengths.empty()) {
    std::sort(lengths.begin(), lengths.end());
    summary.min_length = lengths.front();
    summary.median_length = lengths[(lengths.size() - 1) / 2];
    summary.max_length = lengths.back();
    summary.empty_documents = summary.length_histogram[0];
  }
  std::uint64_t most = 0;
  for (const auto& [token, count] : documents.last_tokens) {
    if (count <= most) continue;
    most = count;
    summary.last_token = token;
  }
  const std::uint64_t with_tokens = summary.num_documents - summary.empty_documents;
  if (with_tokens > 0)
    summary.last_token_share = static_cast<double>(most) / static_cast<double>(with_tokens);
  if (read_tokens) {
    SX_TRY(summary.max_token, largest_token(dataset));
  }
  return summary;
}

nlohmann::ordered_json DatasetSummary::to_json() const {
  nlohmann::ordered_json json;
  json["prefix"] = prefix;
  json["type"] = type;
  json["idx_bytes"] = idx_bytes;
  json["bin_bytes"] = bin_bytes;
  json["has_modes"] = has_modes;
  json["documents"] = num_documents;
  json["empty_documents"] = empty_documents;
  json["sequences"] = num_sequences;
  json["empty_sequences"] = structure.num_empty;
  json["tokens"] = structure.num_tokens;
  json["gaps"] = structure.num_gaps;
  json["document_length"] = {{"min", min_length}, {"median", median_length}, {"max", max_length}};
  json["document_length_histogram"] = nlohmann::ordered_json::array();
  for (std::size_t b = 0; b < length_histogram.size(); ++b) {
    json["document_length_histogram"].push_back(
        {{"tokens", range_name(b)}, {"documents", length_histogram[b]}});
  }
  json["last_token"] = last_token;
  json["last_token_share"] = last_token_share;
  if (max_token >= 0) json["max_token"] = max_token;
  return json;
}

std::string DatasetSummary::to_text() const {
  const auto size = [](std::uint64_t bytes) {
    return format_bytes(Bytes(static_cast<std::int64_t>(bytes)));
  };
  std::string text = prefix + "\n";
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<12} {}\n", name, value);
  };
  line("files", fmt::format("index {}, tokens {}, {}{}", size(idx_bytes), size(bin_bytes), type,
                            has_modes ? ", with sequence modes" : ""));
  line("documents", fmt::format("{} ({} empty)", num_documents, empty_documents));
  line("sequences", fmt::format("{} ({} empty)", num_sequences, structure.num_empty));
  line("tokens", std::to_string(structure.num_tokens));
  if (max_token >= 0) line("largest id", std::to_string(max_token));
  if (structure.num_gaps > 0) {
    line("gaps",
         fmt::format("{} places where sequences do not lie back to back, first before sequence {}",
                     structure.num_gaps, structure.first_gap));
  }
  line("length", fmt::format("tokens per document: {} to {}, median {}", min_length, max_length,
                             median_length));
  if (last_token >= 0) {
    line("last token",
         fmt::format("{} ends {:.1f} % of the documents", last_token, 100 * last_token_share));
  }
  const std::uint64_t most = length_histogram.empty() ? 0
                                                      : *std::max_element(length_histogram.begin(),
                                                                          length_histogram.end());
  for (std::size_t b = 0; b < length_histogram.size(); ++b) {
    const std::uint64_t count = length_histogram[b];
    const auto bar = static_cast<std::size_t>((count * kBarWidth + most - 1) / most);
    text += fmt::format("  {:>14} {:>10}{}{}\n", range_name(b), count, bar > 0 ? "  " : "",
                        std::string(bar, '#'));
  }
  return text;
}

}  // namespace sx
