#include "sextant/data/document_stream.h"

#include <fmt/format.h>

#include <utility>

namespace sx {

DocumentStream::DocumentStream(std::vector<fs::path> inputs, std::string text_key)
    : inputs_(std::move(inputs)), text_key_(std::move(text_key)) {}

Result<void> DocumentStream::open_input() {
  SX_TRY(JsonlReader reader, JsonlReader::open(inputs_[input_idx_], text_key_));
  reader_.emplace(std::move(reader));
  return {};
}

Result<void> DocumentStream::seek(std::uint64_t input_idx, std::uint64_t records) {
  reader_.reset();
  input_idx_ = input_idx;
  records_ = 0;
  bytes_before_ = 0;
  for (std::uint64_t i = 0; i < input_idx_ && i < inputs_.size(); ++i) {
    std::error_code ignored;
    bytes_before_ += fs::file_size(inputs_[i], ignored);
  }
  while (input_idx_ == input_idx && records_ < records) {
    SX_TRY(const auto document, next());
    if (!document) break;
  }
  if (input_idx_ == input_idx && records_ == records) return {};
  return Error{ErrorKind::kCorrupt,
               fmt::format("has fewer than the {} records dealt with before", records),
               input_idx < inputs_.size() ? inputs_[input_idx].string() : std::string()};
}

Result<std::optional<DocumentStream::Document>> DocumentStream::next() {
  for (;;) {
    if (input_idx_ >= inputs_.size()) return std::optional<Document>();
    if (!reader_) SX_TRY_VOID(open_input());
    auto read = reader_->next();
    if (!read.ok() && read.error().kind != ErrorKind::kInvalid) return std::move(read).error();
    if (read.ok() && !read->has_value()) {
      bytes_before_ += reader_->file_bytes();
      reader_.reset();
      ++input_idx_;
      records_ = 0;
      continue;
    }
    ++records_;
    Document document;
    document.bad = !read.ok();
    if (!document.bad) {
      const JsonlDocument& found = **read;
      document.text = found.text;
      document.id = found.id.empty() ? fmt::format("{}:{}", inputs_[input_idx_].filename().string(),
                                                   found.line_number)
                                     : std::string(found.id);
    }
    return std::optional<Document>(std::move(document));
  }
}

std::uint64_t DocumentStream::bytes_read() const {
  return bytes_before_ + (reader_ ? reader_->bytes_read() : 0);
}

}  // namespace sx
