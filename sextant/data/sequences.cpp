#include "sextant/data/sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "sextant/base/check.h"

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

class SequenceSource : public TokenSource {
 public:
  SequenceSource(std::shared_ptr<const Sequences> sequences, std::uint64_t first,
                 std::uint64_t last)
      : sequences_(std::move(sequences)), first_(first), last_(last) {
    const SequenceLengths lengths = sequences_->lengths();
    SX_CHECK(first <= last && last <= lengths.size(), "sequences {} to {} of {}", first, last,
             lengths.size());
    for (std::uint64_t i = first; i < last; ++i) {
      num_tokens_ += static_cast<std::uint64_t>(lengths[i]);
    }
  }
  std::uint64_t num_tokens() const override { return num_tokens_; }
  std::uint64_t num_documents() const override { return last_ - first_; }
  std::uint64_t document_start(std::uint64_t k) const override { return starts().at(k); }
  Result<void> read(std::uint64_t begin, std::span<std::int32_t> out) const override {
    SX_CHECK(begin <= num_tokens_ && out.size() <= num_tokens_ - begin, "tokens {} + {} of {}",
             begin, out.size(), num_tokens_);
    for (std::uint64_t k = document_at(begin); !out.empty(); ++k) {
      const std::uint64_t count =
          std::min<std::uint64_t>(out.size(), document_start(k + 1) - begin);
      SX_TRY_VOID(sequences_->read(first_ + k, begin - document_start(k), out.first(count)));
      out = out.subspan(count);
      begin += count;
    }
    return {};
  }
  std::string fingerprint() const override {
    return fmt::format("{} sequences {}-{}", sequences_->fingerprint(), first_, last_);
  }

 private:
  const std::vector<std::uint64_t>& starts() const {
    std::call_once(once_, [this] {
      const SequenceLengths lengths = sequences_->lengths();
      starts_.push_back(0);
      for (std::uint64_t i = first_; i < last_; ++i) {
        starts_.push_back(starts_.back() + static_cast<std::uint64_t>(lengths[i]));
      }
    });
    return starts_;
  }
  std::shared_ptr<const Sequences> sequences_;
  std::uint64_t first_, last_, num_tokens_ = 0;
  mutable std::once_flag once_;
  mutable std::vector<std::uint64_t> starts_;
};

}  // namespace

std::shared_ptr<const TokenSource> make_sequence_source(std::shared_ptr<const Sequences> sequences,
                                                        std::uint64_t first, std::uint64_t last) {
  return std::make_shared<SequenceSource>(std::move(sequences), first, last);
}

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
