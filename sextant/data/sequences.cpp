#include "sextant/data/sequences.h"

#include <fmt/format.h>

#include <limits>
#include <utility>
#include <vector>

#include "sextant/base/hash.h"

namespace sx {

namespace {

class IndexedSequences : public Sequences {
 public:
  explicit IndexedSequences(IndexedDataset dataset) : dataset_(std::move(dataset)) {}
  SequenceLengths lengths() const override {
    return {dataset_.length_bytes(), dataset_.num_sequences()};
  }
  Result<void> read(std::uint64_t i, std::uint64_t first,
                    std::span<std::int32_t> out) const override {
    return dataset_.read_sequence(i, first, out);
  }
  std::string fingerprint() const override { return indexed_fingerprint(dataset_); }

 private:
  IndexedDataset dataset_;
};

class DocumentSequences : public Sequences {
 public:
  DocumentSequences(std::shared_ptr<const TokenSource> source, std::vector<std::int32_t> lengths)
      : source_(std::move(source)), lengths_(std::move(lengths)) {}
  SequenceLengths lengths() const override { return SequenceLengths(lengths_); }
  Result<void> read(std::uint64_t i, std::uint64_t first,
                    std::span<std::int32_t> out) const override {
    return source_->read(source_->document_start(i) + first, out);
  }
  std::string fingerprint() const override { return source_->fingerprint(); }

 private:
  std::shared_ptr<const TokenSource> source_;
  std::vector<std::int32_t> lengths_;
};

}  // namespace

Result<std::shared_ptr<const Sequences>> make_indexed_sequences(IndexedDataset dataset) {
  SX_TRY_VOID(dataset.check_structure());
  return std::shared_ptr<const Sequences>(std::make_shared<IndexedSequences>(std::move(dataset)));
}

Result<std::shared_ptr<const Sequences>> make_document_sequences(
    std::shared_ptr<const TokenSource> source) {
  std::vector<std::int32_t> lengths;
  lengths.reserve(source->num_documents());
  for (std::uint64_t k = 0; k < source->num_documents(); ++k) {
    const std::uint64_t length = source->document_start(k + 1) - source->document_start(k);
    if (length > std::numeric_limits<std::int32_t>::max()) {
      return Error{ErrorKind::kLimit,
                   fmt::format("document {} has {} tokens, a sequence holds 2^31 - 1", k, length),
                   source->fingerprint()};
    }
    lengths.push_back(static_cast<std::int32_t>(length));
  }
  return std::shared_ptr<const Sequences>(
      std::make_shared<DocumentSequences>(std::move(source), std::move(lengths)));
}

}  // namespace sx
