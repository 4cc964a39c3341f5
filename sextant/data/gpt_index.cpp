#include "sextant/data/gpt_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/data/numpy_random.h"

namespace sx {

namespace {

__extension__ typedef unsigned __int128 WideCount;

constexpr std::uint64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kPrefetchDocuments = 16;

std::uint64_t extra_of(const GptIndexSpec& spec) { return spec.extra_token ? 1 : 0; }

/// Number of samples that keep a last one that is not full, divided in 32-bit floating point.
std::uint64_t rounded_up_in_float(std::uint64_t tokens, std::uint64_t seq_len) {
  const float quotient = static_cast<float>(tokens) / static_cast<float>(seq_len);
  return static_cast<std::uint64_t>(std::ceil(quotient));
}

std::vector<std::int32_t> epoch_documents(const GptIndexSpec& spec, std::uint64_t epochs,
                                          NumpyRandom& random) {
  const std::uint64_t count = spec.last_sequence - spec.first_sequence;
  std::vector<std::int32_t> documents(epochs * count);
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const auto begin = documents.begin() + static_cast<std::ptrdiff_t>(epoch * count);
    std::iota(begin, begin + static_cast<std::ptrdiff_t>(count),
              static_cast<std::int32_t>(spec.first_sequence));
  }
  random.shuffle(documents);
  return documents;
}

std::vector<std::int32_t> all_documents(const GptIndexSpec& spec, const GptIndexCounts& counts,
                                        NumpyRandom& random) {
  if (!counts.separate_final_epoch) return epoch_documents(spec, counts.epochs, random);
  std::vector<std::int32_t> documents = epoch_documents(spec, counts.epochs - 1, random);
  const std::vector<std::int32_t> last = epoch_documents(spec, 1, random);
  documents.insert(documents.end(), last.begin(), last.end());
  return documents;
}

/// Calls `emit(row, d, offset)` for rows 1, 2 ... of the sample index until it answers false. Row r
/// begins at token r L of the documents laid end to end: in the first document whose end is at or
/// behind token r L + x, or, when there is none, at the end of the last. `document(d)` is the
/// sequence at place d.
template <class Document, class Emit>
void walk_rows(const SequenceLengths& lengths, const GptIndexSpec& spec, std::uint64_t samples,
               std::uint64_t num_documents, const Document& document, const Emit& emit) {
  const std::uint64_t extra = extra_of(spec);
  std::uint64_t begin = 0;            // token at which document d begins
  std::uint64_t next = spec.seq_len;  // first token of the row
  std::uint64_t row = 1;
  for (std::uint64_t d = 0; d < num_documents && row <= samples; ++d) {
    if (d + kPrefetchDocuments < num_documents) lengths.prefetch(document(d + kPrefetchDocuments));
    const std::uint64_t end = begin + static_cast<std::uint64_t>(lengths[document(d)]);
    for (; row <= samples && next + extra <= end; ++row, next += spec.seq_len) {
      if (!emit(row, d, static_cast<std::int64_t>(next - begin))) return;
    }
    begin = end;
  }
  const std::int64_t offset =
      lengths[document(num_documents - 1)] - static_cast<std::int64_t>(extra);
  for (; row <= samples; ++row) {
    if (!emit(row, num_documents - 1, offset)) return;
  }
}

template <class T>
NpyArray sample_rows(const SequenceLengths& lengths, const GptIndexSpec& spec,
                     std::uint64_t samples, const std::vector<std::int32_t>& documents) {
  std::vector<T> rows(2 * (samples + 1));
  walk_rows(
      lengths, spec, samples, documents.size(),
      [&](std::uint64_t d) { return static_cast<std::uint64_t>(documents[d]); },
      [&](std::uint64_t row, std::uint64_t d, std::int64_t offset) {
        rows[2 * row] = static_cast<T>(d);
        rows[2 * row + 1] = static_cast<T>(offset);
        return true;
      });
  return NpyArray::from(std::move(rows), 2);
}

/// A length is an int32 itself, so only the number of documents can be too large.
bool rows_fit_int32(std::uint64_t num_documents) { return num_documents <= kInt32Max; }

bool shuffles_as_uint32(std::uint64_t samples) {
  return samples < std::numeric_limits<std::uint32_t>::max() - 1u;
}

template <class T>
NpyArray shuffled(const GptIndexCounts& counts, NumpyRandom& random) {
  std::vector<T> places(counts.samples);
  std::iota(places.begin(), places.end(), T{0});
  const std::span<T> all(places);
  if (counts.separate_final_epoch) {
    random.shuffle(all.first(counts.samples_before_last));
    random.shuffle(all.subspan(counts.samples_before_last));
  } else {
    random.shuffle(all);
  }
  return NpyArray::from(std::move(places));
}

Error not_of_spec(std::string message) {
  return {ErrorKind::kCorrupt, std::move(message), "index cache"};
}

}  // namespace

Result<GptIndexCounts> count_gpt_index(const SequenceLengths& lengths, const GptIndexSpec& spec) {
  SX_CHECK(spec.seq_len > 0 && spec.first_sequence <= spec.last_sequence &&
               spec.last_sequence <= lengths.size(),
           "sequences {} to {} of {}, length {}", spec.first_sequence, spec.last_sequence,
           lengths.size(), spec.seq_len);
  if (spec.seed > std::numeric_limits<std::uint32_t>::max()) {
    return Error{ErrorKind::kInvalid,
                 fmt::format("seed {}; this order takes seeds up to 2^32 - 1", spec.seed), "seed"};
  }
  GptIndexCounts counts;
  for (std::uint64_t i = spec.first_sequence; i < spec.last_sequence; ++i) {
    counts.tokens_per_epoch += static_cast<std::uint64_t>(lengths[i]);
  }
  const std::uint64_t tokens = counts.tokens_per_epoch;
  if (tokens == 0) {
    return Error{
        ErrorKind::kInvalid,
        fmt::format("sequences {} to {} hold no token", spec.first_sequence, spec.last_sequence),
        "data.split"};
  }
  const std::uint64_t extra = extra_of(spec);
  if (spec.num_samples) {
    const WideCount needed = WideCount{*spec.num_samples} * spec.seq_len + extra;
    const WideCount epochs = std::max<WideCount>(1, (needed + tokens - 1) / tokens);
    const std::uint64_t sequences = spec.last_sequence - spec.first_sequence;
    if (epochs > kInt32Max || epochs * sequences > kInt32Max) {
      return Error{
          ErrorKind::kLimit,
          fmt::format("{} samples of {} tokens take {} epochs of {} sequences; this order "
                      "counts them in 32 bits",
                      *spec.num_samples, spec.seq_len,
                      static_cast<std::uint64_t>(std::min<WideCount>(epochs, ~0ull)), sequences),
          "training.steps"};
    }
    counts.epochs = static_cast<std::uint64_t>(epochs);
  } else if (spec.last_sequence - spec.first_sequence > kInt32Max) {
    return Error{ErrorKind::kLimit,
                 fmt::format("{} sequences; this order counts them in 32 bits, {} at most",
                             spec.last_sequence - spec.first_sequence, kInt32Max),
                 "data.split"};
  }
  const std::uint64_t all = counts.epochs * tokens - extra;
  if (counts.epochs > 1) {
    counts.samples_before_last = ((counts.epochs - 1) * tokens - extra) / spec.seq_len;
    const std::uint64_t last = *spec.num_samples - counts.samples_before_last;
    const std::uint64_t per_epoch = (tokens - extra) / spec.seq_len;
    counts.separate_final_epoch =
        last < static_cast<std::uint64_t>(0.80 * static_cast<double>(per_epoch));
    if (!counts.separate_final_epoch) counts.samples_before_last = 0;
  }
  counts.exact_samples =
      spec.drop_last ? all / spec.seq_len : (all + spec.seq_len - 1) / spec.seq_len;
  counts.samples = spec.drop_last ? all / spec.seq_len : rounded_up_in_float(all, spec.seq_len);
  return counts;
}

Result<GptIndex> build_gpt_index(const SequenceLengths& lengths, const GptIndexSpec& spec) {
  SX_TRY(const GptIndexCounts counts, count_gpt_index(lengths, spec));
  NumpyRandom random(static_cast<std::uint32_t>(spec.seed));
  GptIndex index;
  std::vector<std::int32_t> documents = all_documents(spec, counts, random);
  index.sample_index = rows_fit_int32(documents.size())
                           ? sample_rows<std::int32_t>(lengths, spec, counts.samples, documents)
                           : sample_rows<std::int64_t>(lengths, spec, counts.samples, documents);
  index.document_index = NpyArray::from(std::move(documents));
  index.shuffle_index = shuffles_as_uint32(counts.samples) ? shuffled<std::uint32_t>(counts, random)
                                                           : shuffled<std::int64_t>(counts, random);
  return index;
}

Result<void> check_gpt_index(const GptIndex& index, const SequenceLengths& lengths,
                             const GptIndexSpec& spec, const GptIndexCounts& counts) {
  const std::uint64_t documents = counts.epochs * (spec.last_sequence - spec.first_sequence);
  const auto check_shape = [](const NpyArray& array, const char* name, NpyType type,
                              std::uint64_t rows, std::uint64_t columns) -> Result<void> {
    if (array.type() == type && array.rows() == rows && array.columns() == columns) return {};
    return not_of_spec(fmt::format("{}: {} x {} of {} instead of {} x {} of {}", name, array.rows(),
                                   array.columns(), to_string(array.type()), rows, columns,
                                   to_string(type)));
  };
  SX_TRY_VOID(check_shape(index.document_index, "document_index", NpyType::kInt32, documents, 0));
  SX_TRY_VOID(check_shape(index.sample_index, "sample_index",
                          rows_fit_int32(documents) ? NpyType::kInt32 : NpyType::kInt64,
                          counts.samples + 1, 2));
  SX_TRY_VOID(check_shape(index.shuffle_index, "shuffle_index",
                          shuffles_as_uint32(counts.samples) ? NpyType::kUint32 : NpyType::kInt64,
                          counts.samples, 0));
  for (std::uint64_t d = 0; d < documents; ++d) {
    const std::int64_t sequence = index.document_index[d];
    if (sequence < static_cast<std::int64_t>(spec.first_sequence) ||
        sequence >= static_cast<std::int64_t>(spec.last_sequence)) {
      return not_of_spec(
          fmt::format("document_index: entry {} is {}, outside the split", d, sequence));
    }
  }
  std::vector<bool> seen(counts.samples);
  for (std::uint64_t k = 0; k < counts.samples; ++k) {
    const std::int64_t row = index.shuffle_index[k];
    if (row < 0 || static_cast<std::uint64_t>(row) >= counts.samples ||
        seen[static_cast<std::uint64_t>(row)]) {
      return not_of_spec(fmt::format("shuffle_index: entry {} is {}, again or outside", k, row));
    }
    seen[static_cast<std::uint64_t>(row)] = true;
  }
  std::optional<std::uint64_t> bad_row;
  if (index.sample_index[0] != 0 || index.sample_index[1] != 0) bad_row = 0;
  walk_rows(
      lengths, spec, counts.samples, documents,
      [&](std::uint64_t d) { return static_cast<std::uint64_t>(index.document_index[d]); },
      [&](std::uint64_t row, std::uint64_t d, std::int64_t offset) {
        const bool same = index.sample_index[2 * row] == static_cast<std::int64_t>(d) &&
                          index.sample_index[2 * row + 1] == offset;
        if (!same && !bad_row) bad_row = row;
        return same;
      });
  if (!bad_row) return {};
  return not_of_spec(fmt::format(
      "sample_index: row {} is ({}, {}), which does not follow from the sequences' lengths",
      *bad_row, index.sample_index[2 * *bad_row], index.sample_index[2 * *bad_row + 1]));
}

}  // namespace sx
