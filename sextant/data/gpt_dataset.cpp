#include "sextant/data/gpt_dataset.h"

#include <fmt/format.h>

#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/log.h"
#include "sextant/data/index_cache.h"

namespace sx {

namespace {

/// What makes the arrays of one prefix what they are, beside their description.
nlohmann::ordered_json gpt_origin(const GptDataset::Options& options) {
  nlohmann::ordered_json origin{{"extra_token", options.spec.extra_token},
                                {"drop_last", options.spec.drop_last},
                                {"first_sequence", options.spec.first_sequence},
                                {"last_sequence", options.spec.last_sequence}};
  origin["files"] = options.origin;
  return origin;
}

Result<void> accept_gpt_entry(const IndexCache::Entry& entry, const nlohmann::ordered_json& origin,
                              const SequenceLengths& lengths, const GptIndexSpec& spec,
                              const GptIndexCounts& counts) {
  if (!entry.origin) {
    return check_gpt_index({entry.arrays[0], entry.arrays[1], entry.arrays[2]}, lengths, spec,
                           counts);
  }
  for (const auto& [name, value] : origin.items()) {
    if (entry.origin->contains(name) && (*entry.origin)[name] == value) continue;
    return Error{
        ErrorKind::kCorrupt,
        fmt::format("{} was {}, is {}", name,
                    entry.origin->contains(name) ? (*entry.origin)[name].dump() : "not said",
                    value.dump()),
        entry.base};
  }
  return {};
}

}  // namespace

Error GptDataset::with_path(Error error) const {
  error.message =
      fmt::format("the {} part of {}: {}", options_.split, options_.path, error.message);
  return error;
}

Result<std::shared_ptr<const GptDataset>> GptDataset::open(
    std::shared_ptr<const Sequences> sequences, Options options) {
  std::shared_ptr<GptDataset> dataset(new GptDataset(std::move(sequences), std::move(options)));
  if (auto loaded = dataset->load_index(); !loaded.ok()) {
    return dataset->with_path(std::move(loaded).error());
  }
  return std::shared_ptr<const GptDataset>(std::move(dataset));
}

Result<void> GptDataset::load_index() {
  const GptIndexSpec& spec = options_.spec;
  SX_TRY(counts_, count_gpt_index(lengths_, spec));
  if (counts_.samples != counts_.exact_samples) {
    SX_LOG(kWarn, "data.float_count", "path", options_.path, "split", options_.split, "samples",
           counts_.samples, "exact", counts_.exact_samples);
  }
  if (options_.cache.empty()) {
    SX_TRY(index_, build_gpt_index(lengths_, spec));
    return {};
  }
  const IndexCache cache({options_.cache,
                          "GPTDataset",
                          options_.split,
                          options_.identity,
                          {"document_index", "sample_index", "shuffle_index"}});
  const nlohmann::ordered_json origin = gpt_origin(options_);
  SX_TRY(std::vector<NpyArray> arrays,
         cache.load_or_build(
             [&](const IndexCache::Entry& entry) {
               return accept_gpt_entry(entry, origin, lengths_, spec, counts_);
             },
             [&]() -> Result<std::vector<NpyArray>> {
               SX_TRY(GptIndex built, build_gpt_index(lengths_, spec));
               return std::vector<NpyArray>{built.document_index, built.sample_index,
                                            built.shuffle_index};
             },
             origin));
  index_ = {arrays[0], arrays[1], arrays[2]};
  return {};
}

Result<std::uint64_t> GptDataset::row_of(std::uint64_t k) const {
  SX_CHECK(k < size(), "sample {} of {}", k, size());
  const std::int64_t row = index_.shuffle_index[k];
  if (row >= 0 && static_cast<std::uint64_t>(row) < size()) return static_cast<std::uint64_t>(row);
  return with_path(
      {ErrorKind::kCorrupt,
       fmt::format("shuffle_index: entry {} is {}, there are {} samples", k, row, size()),
       options_.path});
}

Result<std::vector<GptDataset::Piece>> GptDataset::pieces(std::uint64_t row) const {
  SX_CHECK(row < size(), "row {} of {}", row, size());
  const NpyArray& rows = index_.sample_index;
  const std::int64_t first = rows[2 * row], offset = rows[2 * row + 1];
  const std::int64_t last = rows[2 * row + 2];
  const std::int64_t end = rows[2 * row + 3] + static_cast<std::int64_t>(extra_);
  const auto corrupt = [&](const char* what) {
    return with_path({ErrorKind::kCorrupt,
                      fmt::format("sample_index: row {} from ({}, {}) to ({}, {}) {}", row, first,
                                  offset, last, end, what),
                      options_.path});
  };
  const auto documents = static_cast<std::int64_t>(index_.document_index.rows());
  if (first < 0 || last < first || last >= documents) return corrupt("leads out of document_index");
  std::vector<Piece> pieces;
  std::uint64_t total = 0;
  for (std::int64_t d = first; d <= last; ++d) {
    const std::int64_t sequence = index_.document_index[static_cast<std::uint64_t>(d)];
    if (sequence < 0 || static_cast<std::uint64_t>(sequence) >= lengths_.size()) {
      return corrupt("names a sequence that is not there");
    }
    const std::int64_t length = lengths_[static_cast<std::uint64_t>(sequence)];
    const std::int64_t from = d == first ? offset : 0;
    const std::int64_t to = d == last ? end : length;
    if (from < 0 || to < from || to > length) return corrupt("leads out of a sequence");
    total += static_cast<std::uint64_t>(to - from);
    if (total > sample_tokens()) return corrupt("holds more tokens than a sample");
    pieces.push_back({static_cast<std::uint64_t>(sequence), static_cast<std::uint64_t>(from),
                      static_cast<std::uint64_t>(to - from)});
  }
  return pieces;
}

Result<std::uint64_t> GptDataset::read(const std::vector<Piece>& pieces,
                                       std::span<std::int32_t> out) const {
  SX_CHECK(out.size() == sample_tokens(), "room for {} tokens, a sample has {}", out.size(),
           sample_tokens());
  std::uint64_t at = 0;
  for (const Piece& piece : pieces) {
    if (piece.length == 0) continue;
    SX_TRY_VOID(sequences_->read(piece.sequence, piece.first, out.subspan(at, piece.length)));
    at += piece.length;
  }
  return at;
}

}  // namespace sx
