#pragma once

#include <cstdint>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"

namespace sx {

/// What a deduplication of plain files did.
struct FileDedupReport {
  std::uint64_t files = 0, files_written = 0;
  std::uint64_t pieces = 0, dropped = 0;  ///< lines, paragraphs or documents
  std::uint64_t bytes_in = 0, bytes_out = 0;
};

/// Lines that stand more than once in all files together go, every copy, the first too. Files keep
/// their names in `folder`; one that loses all its lines is written empty. A line is compared
/// without its line end and written with it. Two passes; memory 24 bytes a distinct line.
/// Errors: kNotFound, kIo; kInvalid when two inputs have one name.
Result<FileDedupReport> dedup_lines(const std::vector<fs::path>& inputs, const fs::path& folder);

/// Paragraphs (parted by empty lines): second and later copies go.
Result<FileDedupReport> dedup_paragraphs(const std::vector<fs::path>& inputs,
                                         const fs::path& folder);

/// Files whose bytes equal an earlier one's are not written.
Result<FileDedupReport> dedup_files(const std::vector<fs::path>& inputs, const fs::path& folder);

/// Errors: kInvalid when two of `inputs` would be written under one name.
Result<void> check_distinct_names(const std::vector<fs::path>& inputs);

}  // namespace sx
