#include "sextant/mesh/seq_partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sextant/base/check.h"

namespace sx {
namespace {

std::size_t owner_of(std::size_t chunk, std::size_t chunks) {
  return std::min(chunk, chunks - 1 - chunk);
}

void deal_evenly(std::int64_t length, std::vector<std::vector<SeqRange>>& parts) {
  const auto chunks = static_cast<std::int64_t>(2 * parts.size());
  for (std::int64_t j = 0; j < chunks; ++j) {
    parts[owner_of(static_cast<std::size_t>(j), static_cast<std::size_t>(chunks))].push_back(
        {j * length / chunks, (j + 1) * length / chunks});
  }
}

void deal_document(std::int64_t begin, std::int64_t length, std::vector<std::int64_t>& totals,
                   std::vector<std::vector<SeqRange>>& parts) {
  const std::size_t chunks = 2 * parts.size();
  std::vector<std::int64_t> sizes(chunks, length / static_cast<std::int64_t>(chunks));
  for (std::size_t r = 0; r < parts.size(); ++r) totals[r] += 2 * sizes[0];
  std::vector<bool> has_more(chunks, false);
  for (std::int64_t left = length % static_cast<std::int64_t>(chunks); left > 0; --left) {
    std::size_t best = chunks;
    for (std::size_t j = 0; j < chunks; ++j) {
      if (has_more[j]) continue;
      if (best == chunks || totals[owner_of(j, chunks)] < totals[owner_of(best, chunks)]) best = j;
    }
    has_more[best] = true;
    ++sizes[best];
    ++totals[owner_of(best, chunks)];
  }
  for (std::size_t j = 0; j < chunks; ++j) {
    parts[owner_of(j, chunks)].push_back({begin, begin + sizes[j]});
    begin += sizes[j];
  }
}

}  // namespace

Result<SeqPartitionKind> parse_seq_partition(std::string_view name) {
  if (name == "zigzag") return SeqPartitionKind::kZigzag;
  if (name == "document") return SeqPartitionKind::kDocument;
  if (name == "contiguous") return SeqPartitionKind::kContiguous;
  return Error{ErrorKind::kNotFound,
               fmt::format("no sequence partition is called \"{}\"; there are zigzag, document and "
                           "contiguous",
                           name),
               {}};
}

std::vector<std::vector<SeqRange>> partition_sequence(SeqPartitionKind kind,
                                                      std::span<const std::int64_t> documents,
                                                      std::int64_t degree) {
  SX_CHECK(degree >= 1, "degree {}", degree);
  SX_CHECK(std::all_of(documents.begin(), documents.end(), [](std::int64_t n) { return n >= 0; }),
           "a document of negative length");
  const std::int64_t length = std::accumulate(documents.begin(), documents.end(), std::int64_t{0});
  std::vector<std::vector<SeqRange>> parts(static_cast<std::size_t>(degree));
  switch (kind) {
    case SeqPartitionKind::kZigzag: deal_evenly(length, parts); break;
    case SeqPartitionKind::kContiguous:
      for (std::int64_t r = 0; r < degree; ++r) {
        parts[static_cast<std::size_t>(r)].push_back(
            {r * length / degree, (r + 1) * length / degree});
      }
      break;
    case SeqPartitionKind::kDocument: {
      std::vector<std::int64_t> totals(parts.size(), 0);
      std::int64_t begin = 0;
      for (const std::int64_t document : documents) {
        deal_document(begin, document, totals, parts);
        begin += document;
      }
      break;
    }
  }
  return parts;
}

std::vector<std::int64_t> token_indices(const std::vector<SeqRange>& ranges) {
  std::vector<std::int64_t> indices;
  for (const SeqRange& range : ranges) {
    for (std::int64_t i = range.begin; i < range.end; ++i) indices.push_back(i);
  }
  return indices;
}

std::int64_t causal_pairs(const std::vector<SeqRange>& ranges,
                          std::span<const std::int64_t> documents) {
  std::int64_t pairs = 0, begin = 0;
  for (const std::int64_t document : documents) {
    for (const SeqRange& range : ranges) {
      const std::int64_t low = std::max(range.begin, begin) - begin,
                         high = std::min(range.end, begin + document) - begin;
      if (low < high) pairs += (low + 1 + high) * (high - low) / 2;  // low+1, ..., high
    }
    begin += document;
  }
  return pairs;
}

}  // namespace sx
