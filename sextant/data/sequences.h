#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "sextant/base/result.h"
#include "sextant/data/indexed_dataset.h"
#include "sextant/data/token_source.h"

namespace sx {

/// Lengths of sequences in tokens as they lie in an index: 4 bytes each, little-endian, aligned to
/// nothing. Does not own them.
class SequenceLengths {
 public:
  SequenceLengths(const std::byte* bytes, std::uint64_t count) : bytes_(bytes), count_(count) {}
  explicit SequenceLengths(std::span<const std::int32_t> lengths)
      : bytes_(reinterpret_cast<const std::byte*>(lengths.data())), count_(lengths.size()) {}

  std::uint64_t size() const { return count_; }
  /// i < size(), not checked.
  std::int32_t operator[](std::uint64_t i) const {
    std::int32_t value;
    std::memcpy(&value, bytes_ + 4 * i, 4);
    return value;
  }
  void prefetch(std::uint64_t i) const { __builtin_prefetch(bytes_ + 4 * i); }

 private:
  const std::byte* bytes_;
  std::uint64_t count_;
};

/// Token sequences by number: what Megatron-LM's order shuffles. Immutable; threads: safe.
class Sequences {
 public:
  virtual ~Sequences() = default;
  /// All are >= 0.
  virtual SequenceLengths lengths() const = 0;
  /// Copies tokens [first, first + out.size()) of sequence i. Errors: kCorrupt, kIo.
  virtual Result<void> read(std::uint64_t i, std::uint64_t first,
                            std::span<std::int32_t> out) const = 0;
  /// As TokenSource::fingerprint.
  virtual std::string fingerprint() const = 0;
};

/// The sequences of a `.bin/.idx` pair (documents play no part). Checks the structure first.
/// Errors: kCorrupt.
Result<std::shared_ptr<const Sequences>> make_indexed_sequences(IndexedDataset dataset);
/// The documents of any source. Memory: 4 bytes each. Errors: kLimit for one of 2^31 tokens or
/// more.
Result<std::shared_ptr<const Sequences>> make_document_sequences(
    std::shared_ptr<const TokenSource> source);
/// Sequences [first, last) one after the other as a source, each a document. Memory: 8 bytes each
/// from the first call that needs places on.
std::shared_ptr<const TokenSource> make_sequence_source(std::shared_ptr<const Sequences> sequences,
                                                        std::uint64_t first, std::uint64_t last);

}  // namespace sx
