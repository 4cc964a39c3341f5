#include "sextant/data/text_tokens.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "sextant/base/fs.h"
#include "sextant/data/document_stream.h"

namespace sx {
namespace {

constexpr std::uint64_t kMaxTextBytes = std::uint64_t{4} << 30;

bool is_json_lines(const std::string& path) {
  for (const char* ending : {".jsonl", ".jsonl.gz", ".jsonl.zst"}) {
    if (path.ends_with(ending)) return true;
  }
  return false;
}

}  // namespace

bool is_text_path(const std::string& path) {
  std::error_code code;
  return fs::is_regular_file(path, code) && !path.ends_with(".bin") && !path.ends_with(".idx");
}

Result<std::shared_ptr<const TokenSource>> read_text_source(
    const std::string& path,
    const std::function<std::vector<std::int32_t>(std::string_view)>& encode, std::int32_t eod_id) {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> starts;
  const auto add = [&](std::string_view text) {
    starts.push_back(tokens.size());
    if (encode) {
      const std::vector<std::int32_t> ids = encode(text);
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    } else {
      for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    }
    if (eod_id >= 0) tokens.push_back(eod_id);
  };
  if (!is_json_lines(path)) {
    SX_TRY(const std::string text, read_file(path, kMaxTextBytes));
    add(text);
    return make_memory_source(std::move(tokens), std::move(starts));
  }
  DocumentStream stream({path}, "text");
  while (true) {
    SX_TRY(const auto document, stream.next());
    if (!document) break;
    if (document->bad) {
      return Error{ErrorKind::kCorrupt,
                   fmt::format("record {} is no JSON object with a \"text\"", stream.records()),
                   path};
    }
    add(document->text);
  }
  return make_memory_source(std::move(tokens), std::move(starts));
}

}  // namespace sx
