#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "sextant/base/fs.h"
#include "sextant/base/mmap.h"
#include "sextant/base/result.h"
#include "sextant/data/token_source.h"

namespace sx {

/// Element types of a `.bin`, by their code in the `.idx`.
enum class TokenType : std::uint8_t {
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint16 = 8,
};
std::uint64_t token_bytes(TokenType type);
const char* to_string(TokenType type);
/// uint16 for vocabularies below 65500, else int32 (Megatron-LM's rule for writing).
TokenType token_type_for_vocab(std::int64_t vocab_size);

/// `prefix` of "x", "x.bin" or "x.idx".
std::string dataset_prefix(const std::string& path);

/// A Megatron-LM pair `<prefix>.bin` (tokens) and `<prefix>.idx` (docs/formats/indexed_dataset.md),
/// mapped read-only.
///
/// Nothing of a size that the file states is allocated before it was checked against the file's own
/// size. Threads: all const calls are safe.
class IndexedDataset {
 public:
  /// kHeader: header, first and last document index, end of the last sequence against the `.bin`:
  /// O(1). kFull: also every length, offset and document index, see `find_fault`.
  enum class Validate { kHeader, kFull };

  /// Errors: kNotFound, kIo; kCorrupt with file, byte offset and, in a full check, the first bad
  /// sequence; kUnsupported for element types that hold no tokens (float32, float64).
  static Result<IndexedDataset> open(const std::string& prefix,
                                     Validate validate = Validate::kHeader);

  /// The same for two files of any name; errors name the index as `<name>.idx`.
  static Result<IndexedDataset> open_files(const fs::path& idx, const fs::path& bin,
                                           const std::string& name,
                                           Validate validate = Validate::kHeader);

  const std::string& prefix() const { return prefix_; }
  TokenType type() const { return type_; }
  std::uint64_t num_sequences() const { return num_sequences_; }
  std::uint64_t num_documents() const { return num_document_marks_ - 1; }
  bool has_modes() const { return has_modes_; }
  std::uint64_t bin_bytes() const { return bin_.size(); }
  std::uint64_t idx_bytes() const { return idx_.size(); }

  /// Tokens of sequence i as stored in the index (not checked against the `.bin` in kHeader).
  std::int32_t sequence_length(std::uint64_t i) const;
  /// The lengths as they lie in the index: 4 bytes each, little-endian, not aligned.
  const std::byte* length_bytes() const;
  /// Byte offset of sequence i in the `.bin`.
  std::int64_t sequence_offset(std::uint64_t i) const;
  /// Document k holds sequences [document_mark(k), document_mark(k+1)); k in [0, num_documents()].
  std::int64_t document_mark(std::uint64_t k) const;
  /// Mode of sequence i (multimodal data), 0 without modes.
  std::int8_t sequence_mode(std::uint64_t i) const;

  /// Error kCorrupt unless sequence i has a length >= 0 and lies in the `.bin`.
  Result<void> check_sequence(std::uint64_t i) const;
  /// Copies tokens [first, first + out.size()) of sequence i. Errors: kCorrupt if the sequence does
  /// not lie in the `.bin` or an id does not fit int32; kInvalid if the range is outside the
  /// sequence.
  Result<void> read_sequence(std::uint64_t i, std::uint64_t first,
                             std::span<std::int32_t> out) const;

  struct Structure {
    std::uint64_t num_tokens = 0;
    std::uint64_t num_empty = 0;  ///< sequences of length 0
    std::uint64_t num_gaps = 0;   ///< places where offset[i+1] != offset[i] + length[i] * size
    std::uint64_t longest = 0;
    std::uint64_t first_gap = 0;  ///< sequence before the first such place
  };
  /// Checks every length, offset and document index. Errors: kCorrupt naming the first bad sequence
  /// or document.
  Result<Structure> check_structure() const;
  /// Reads all tokens. Errors: kCorrupt naming the first sequence with an id outside [0,
  /// vocab_size).
  Result<void> check_tokens(std::int64_t vocab_size) const;
  /// XXH3-64 of the `.idx`.
  std::uint64_t idx_hash() const;

  std::string_view bin_text() const { return bin_.text(); }
  /// Tokens from byte `offset` of the `.bin` on, wherever sequences begin; outside the file is a
  /// contract error. Errors: kCorrupt for an id that does not fit int32.
  Result<void> read_bytes(std::uint64_t offset, std::span<std::int32_t> out) const;

 private:
  IndexedDataset() = default;
  Result<void> read_header();
  Result<void> check_counts();
  Result<void> check_ends();
  Error corrupt(std::uint64_t offset, const std::string& message) const;
  std::string prefix_;
  MappedFile idx_;
  MappedFile bin_;
  TokenType type_ = TokenType::kUint16;
  std::uint64_t num_sequences_ = 0;
  std::uint64_t num_document_marks_ = 1;
  bool has_modes_ = false;
};

/// TokenSource::fingerprint of a pair: sizes, the index's hash, and the hash of the first and last
/// 64 KiB of tokens; not the time of change, so that a copy on another disk counts as the same.
std::string indexed_fingerprint(const IndexedDataset& dataset);

/// The whole pair as a stream of tokens, sequence after sequence, documents as marked. Checks the
/// structure first. Memory: none per token or document when the sequences lie back to back in the
/// `.bin`, else 8 bytes per sequence. Errors: kCorrupt.
Result<std::shared_ptr<const TokenSource>> make_indexed_source(IndexedDataset dataset);

}  // namespace sx
