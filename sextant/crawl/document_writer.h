#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/crawl/crawl_options.h"
#include "sextant/text/jsonl_writer.h"

namespace sx {

/// Writes documents to docs-00000.jsonl.zst, docs-00001.jsonl.zst ... in a folder, a new file when
/// `shard_bytes` of lines are reached. No file appears under its name before `commit()`; without it
/// all are given up. Lines of attributes go to files of the same names in the folder `attributes`,
/// in the same order, where there are any.
class DocumentWriter {
 public:
  DocumentWriter(fs::path folder, const CrawlOptions& options);

  /// `attributes` may be empty, but for all documents or for none.
  Result<void> write_line(std::string_view line, std::string_view attributes = {});
  /// Writes at least one file, even an empty one, so that "no document" is seen as such.
  Result<void> commit();

  struct Shard {
    std::string name;
    std::uint64_t documents = 0;
    std::uint64_t text_bytes = 0;  ///< of lines, uncompressed
  };
  std::vector<Shard> shards() const;

 private:
  Result<void> open_shard(bool with_attributes);
  fs::path folder_;
  std::uint64_t shard_bytes_;
  JsonlWriter::Options options_;
  std::vector<std::string> names_;
  std::vector<JsonlWriter> writers_;
  std::vector<JsonlWriter> attribute_writers_;
};

}  // namespace sx
