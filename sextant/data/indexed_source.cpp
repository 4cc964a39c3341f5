// A `.bin/.idx` pair as a stream of tokens. Sequences that lie back to back in the `.bin` (every
// writer known does so) need no memory: their byte offsets are the token positions. Others get one
// table of token positions per sequence.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"
#include "sextant/data/indexed_dataset.h"

namespace sx {

namespace {

class IndexedSource : public TokenSource {
 public:
  IndexedSource(IndexedDataset dataset, const IndexedDataset::Structure& structure)
      : dataset_(std::move(dataset)), num_tokens_(structure.num_tokens) {
    if (structure.num_gaps == 0) return;
    starts_.reserve(dataset_.num_sequences() + 1);
    std::uint64_t at = 0;
    for (std::uint64_t i = 0; i < dataset_.num_sequences(); ++i) {
      starts_.push_back(at);
      at += static_cast<std::uint64_t>(dataset_.sequence_length(i));
    }
    starts_.push_back(at);
  }

  std::uint64_t num_tokens() const override { return num_tokens_; }
  std::uint64_t num_documents() const override { return dataset_.num_documents(); }

  std::uint64_t document_start(std::uint64_t k) const override {
    const auto sequence = static_cast<std::uint64_t>(dataset_.document_mark(k));
    if (!starts_.empty()) return starts_[sequence];
    if (sequence == dataset_.num_sequences()) return num_tokens_;
    return static_cast<std::uint64_t>(dataset_.sequence_offset(sequence)) /
           token_bytes(dataset_.type());
  }

  Result<void> read(std::uint64_t begin, std::span<std::int32_t> out) const override {
    SX_CHECK(begin <= num_tokens_ && out.size() <= num_tokens_ - begin, "tokens {} + {} of {}",
             begin, out.size(), num_tokens_);
    if (starts_.empty()) return dataset_.read_bytes(begin * token_bytes(dataset_.type()), out);
    auto sequence = static_cast<std::uint64_t>(
        std::upper_bound(starts_.begin(), starts_.end(), begin) - starts_.begin() - 1);
    while (!out.empty()) {
      const std::uint64_t first = begin - starts_[sequence];
      const std::size_t count = std::min<std::uint64_t>(out.size(), starts_[sequence + 1] - begin);
      SX_TRY_VOID(dataset_.read_sequence(sequence, first, out.first(count)));
      out = out.subspan(count);
      begin += count;
      ++sequence;
    }
    return {};
  }

  std::string fingerprint() const override { return indexed_fingerprint(dataset_); }

 private:
  IndexedDataset dataset_;
  std::uint64_t num_tokens_;
  std::vector<std::uint64_t> starts_;  ///< only when sequences do not lie back to back
};

}  // namespace

std::string indexed_fingerprint(const IndexedDataset& dataset) {
  const std::string_view text = dataset.bin_text();
  const std::size_t edge = std::min<std::size_t>(text.size(), 65536);
  return fmt::format("indexed {} {} {} {}{}", dataset.bin_bytes(), dataset.idx_bytes(),
                     hex64(dataset.idx_hash()), hex64(xxh3_64(text.substr(0, edge))),
                     hex64(xxh3_64(text.substr(text.size() - edge))));
}

Result<std::shared_ptr<const TokenSource>> make_indexed_source(IndexedDataset dataset) {
  SX_TRY(const IndexedDataset::Structure structure, dataset.check_structure());
  return std::shared_ptr<const TokenSource>(
      std::make_shared<IndexedSource>(std::move(dataset), structure));
}

}  // namespace sx
