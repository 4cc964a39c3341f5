#include "sextant/crawl/document_writer.h"

#include <fmt/format.h>

namespace sx {

DocumentWriter::DocumentWriter(fs::path folder, const CrawlOptions& options)
    : folder_(std::move(folder)), shard_bytes_(options.shard_bytes) {
  options_.frame_bytes = options.frame_bytes;
  options_.zstd_level = options.zstd_level;
}

Result<void> DocumentWriter::open_shard(bool with_attributes) {
  const std::string name = fmt::format("docs-{:05}.jsonl.zst", writers_.size());
  SX_TRY(auto writer, JsonlWriter::create(folder_ / name, options_));
  if (with_attributes) {
    SX_TRY_VOID(make_dirs(folder_ / "attributes"));
    SX_TRY(auto attributes, JsonlWriter::create(folder_ / "attributes" / name, options_));
    attribute_writers_.push_back(std::move(attributes));
  }
  names_.push_back(name);
  writers_.push_back(std::move(writer));
  return {};
}

Result<void> DocumentWriter::write_line(std::string_view line, std::string_view attributes) {
  if (writers_.empty() || writers_.back().uncompressed_bytes() >= shard_bytes_)
    SX_TRY_VOID(open_shard(!attributes.empty()));
  if (!attributes.empty()) SX_TRY_VOID(attribute_writers_.back().write_line(attributes));
  return writers_.back().write_line(line);
}

Result<void> DocumentWriter::commit() {
  if (writers_.empty()) SX_TRY_VOID(open_shard(false));
  for (JsonlWriter& writer : attribute_writers_) SX_TRY_VOID(writer.commit());
  for (JsonlWriter& writer : writers_) SX_TRY_VOID(writer.commit());
  return {};
}

std::vector<DocumentWriter::Shard> DocumentWriter::shards() const {
  std::vector<Shard> out;
  for (std::size_t i = 0; i < writers_.size(); ++i) {
    out.push_back({names_[i], writers_[i].lines(), writers_[i].uncompressed_bytes()});
  }
  return out;
}

}  // namespace sx
