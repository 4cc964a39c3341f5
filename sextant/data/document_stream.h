#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/text/jsonl_reader.h"

namespace sx {

/// The documents of several JSON-lines files, one after the other, from any place on. Not
/// thread-safe.
class DocumentStream {
 public:
  struct Document {
    std::string text;
    std::string id;    ///< field "id", else "<file name>:<line>"
    bool bad = false;  ///< the record is no JSON object with a text; then both are empty
  };

  DocumentStream(std::vector<fs::path> inputs, std::string text_key);
  /// Goes to record `records` (good and bad ones counted) of input `input_idx` by reading that
  /// input's beginning.
  Result<void> seek(std::uint64_t input_idx, std::uint64_t records);
  /// Nothing at the end of the last input. Errors: kNotFound, kIo; kCorrupt for an input that is
  /// damaged or cut.
  Result<std::optional<Document>> next();

  /// Place behind the document last given.
  std::uint64_t input_idx() const { return input_idx_; }
  std::uint64_t records() const { return records_; }
  /// Bytes of the inputs as stored, read so far.
  std::uint64_t bytes_read() const;

 private:
  Result<void> open_input();
  std::vector<fs::path> inputs_;
  std::string text_key_;
  std::optional<JsonlReader> reader_;
  std::uint64_t input_idx_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t bytes_before_ = 0;
};

}  // namespace sx
