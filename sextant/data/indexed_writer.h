#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/data/indexed_dataset.h"

namespace sx {

/// Writes a Megatron-LM pair byte for byte as `IndexedDatasetBuilder` does, streaming: memory does
/// not grow with the data. Tokens go to `<prefix>.bin.part`, lengths, document marks and modes to
/// three spill files beside it; `finish()` writes the index and renames `.bin` first and `.idx`
/// last, so a visible `.idx` means a complete pair.
///
/// A writer that is destroyed without `finish()` leaves the parts for `resume`; `remove_parts`
/// removes them. Not thread-safe. Errors: kIo with errno's text from every call.
class IndexedWriter {
 public:
  /// Sizes to go back to; saved by the caller together with its own place in the input.
  struct Position {
    std::uint64_t bin_bytes = 0;
    std::uint64_t num_sequences = 0;
    std::uint64_t num_marks = 1;  ///< document marks, the leading 0 included
    friend bool operator==(const Position&, const Position&) = default;
  };

  static Result<IndexedWriter> create(const std::string& prefix, TokenType type,
                                      bool modes = false);
  /// Opens the parts again, cut to `position`. Errors: kNotFound or kCorrupt when the parts are
  /// missing or shorter.
  static Result<IndexedWriter> resume(const std::string& prefix, TokenType type,
                                      const Position& position, bool modes = false);
  /// What the parts on disk hold (at most what was written before a kill). Errors: kNotFound.
  static Result<Position> parts_on_disk(const std::string& prefix, TokenType type);
  static void remove_parts(const std::string& prefix);

  IndexedWriter(IndexedWriter&&) noexcept;
  IndexedWriter& operator=(IndexedWriter&&) noexcept;
  ~IndexedWriter();

  /// Appends one sequence. Errors: kInvalid for an id that does not fit the type, or more than 2^31
  /// - 1 tokens.
  Result<void> add_sequence(std::span<const std::int32_t> tokens, std::int8_t mode = 0);
  /// Ends the document: the sequences since the last mark (none makes an empty document).
  Result<void> end_document();
  /// add_sequence for each of `lengths` (their sum = tokens.size()), then end_document.
  Result<void> add_document(std::span<const std::int32_t> tokens,
                            std::span<const std::int32_t> lengths);
  /// One sequence, one document.
  Result<void> add_document(std::span<const std::int32_t> tokens);
  /// Appends all sequences and documents of another pair. Errors: kInvalid when types differ;
  /// kCorrupt.
  Result<void> add_index(const IndexedDataset& other);

  /// Writes buffers out and fsyncs; afterwards `position()` is safe to store.
  Result<void> sync();
  Position position() const;
  Result<void> finish();

 private:
  struct State;
  explicit IndexedWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sx
