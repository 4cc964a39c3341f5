#include "sextant/token/text_source.h"

#include <algorithm>
#include <utility>

#include "sextant/text/byte_stream.h"
#include "sextant/text/jsonl_reader.h"

namespace sx {
namespace {

bool is_jsonl(std::filesystem::path path) {
  if (path.extension() == ".zst" || path.extension() == ".gz") path.replace_extension();
  return path.extension() == ".jsonl" || path.extension() == ".ndjson";
}

// Not a space.
bool is_ascii_visible(char c) { return c > ' ' && c < 0x7F; }
// A letter or digit: nothing that a rule lets follow a newline inside one piece ("/" in o200k).
bool is_ascii_alnum(char c) {
  const char lower = static_cast<char>(c | 32);
  return (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'z');
}

}  // namespace

std::size_t find_safe_cut(std::string_view text, std::size_t min_bytes, std::size_t from) {
  for (std::size_t i = std::max(from, min_bytes); i + 1 < text.size(); ++i) {
    if (text[i] == '\n' && i > 0 && is_ascii_visible(text[i - 1]) && is_ascii_alnum(text[i + 1]))
      return i + 1;
  }
  return 0;
}

struct TextSource::State {
  std::vector<std::filesystem::path> files;
  std::string text_key;
  std::size_t part_bytes = 0;

  Place place;
  std::optional<JsonlReader> jsonl;
  std::optional<ByteStream> plain;
  std::string pending;        // plain text not given out yet
  std::size_t looked_at = 0;  // of pending
  std::uint64_t stored_before = 0;
  std::uint64_t stored_total = 0;
  std::uint64_t bad = 0;
  std::vector<std::string> bad_examples;

  bool is_open() const { return jsonl.has_value() || plain.has_value(); }

  Result<void> open() {
    const std::filesystem::path& file = files[place.file_idx];
    if (is_jsonl(file)) {
      SX_TRY(JsonlReader reader, JsonlReader::open(file, text_key));
      jsonl.emplace(std::move(reader));
    } else {
      SX_TRY(ByteStream stream, ByteStream::open(file));
      plain.emplace(std::move(stream));
    }
    return {};
  }

  void close() {
    std::error_code ignored;
    stored_before += std::filesystem::file_size(files[place.file_idx], ignored);
    jsonl.reset();
    plain.reset();
    pending.clear();
    looked_at = 0;
    place = {place.file_idx + 1, 0};
  }

  // Next text of the open file; nothing at its end.
  Result<std::optional<std::string>> next_in_file() {
    return jsonl ? next_document() : next_part();
  }

  Result<std::optional<std::string>> next_document() {
    while (true) {
      auto document = jsonl->next();
      if (document) {
        if (!document->has_value()) return std::optional<std::string>();
        ++place.text_idx;
        return std::optional<std::string>(std::string((*document)->text));
      }
      // kInvalid: this line is no document; anything else ends the file.
      if (document.error().kind != ErrorKind::kInvalid) return std::move(document).error();
      ++place.text_idx;
      ++bad;
      if (bad_examples.size() < 3)
        bad_examples.push_back(document.error().where + ": " + document.error().message);
    }
  }

  Result<std::optional<std::string>> next_part() {
    while (true) {
      if (const std::size_t cut = find_safe_cut(pending, part_bytes, looked_at); cut != 0) {
        std::string part = pending.substr(0, cut);
        pending.erase(0, cut);
        looked_at = 0;
        ++place.text_idx;
        return std::optional<std::string>(std::move(part));
      }
      looked_at = pending.empty() ? 0 : pending.size() - 1;
      SX_TRY(const bool more, plain->read_some(pending));
      if (more) continue;
      if (pending.empty()) return std::optional<std::string>();
      ++place.text_idx;
      looked_at = 0;
      return std::optional<std::string>(std::exchange(pending, {}));
    }
  }
};

TextSource::TextSource(std::vector<std::filesystem::path> files, std::string text_key,
                       std::size_t part_bytes)
    : state_(std::make_unique<State>()) {
  state_->files = std::move(files);
  state_->text_key = std::move(text_key);
  state_->part_bytes = part_bytes;
  for (const auto& file : state_->files) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    if (!error) state_->stored_total += size;
  }
}
TextSource::~TextSource() = default;
TextSource::TextSource(TextSource&&) noexcept = default;
TextSource& TextSource::operator=(TextSource&&) noexcept = default;

Result<std::optional<std::string>> TextSource::next() {
  State& s = *state_;
  while (s.place.file_idx < s.files.size()) {
    if (!s.is_open()) SX_TRY_VOID(s.open());
    SX_TRY(std::optional<std::string> text, s.next_in_file());
    if (text) return text;
    s.close();
  }
  return std::optional<std::string>();
}

TextSource::Place TextSource::place() const { return state_->place; }

Result<void> TextSource::seek(Place place) {
  State& s = *state_;
  s.jsonl.reset();
  s.plain.reset();
  s.pending.clear();
  s.looked_at = 0;
  s.place = {};
  s.stored_before = 0;
  while (s.place.file_idx < place.file_idx && s.place.file_idx < s.files.size()) s.close();
  const std::uint64_t bad = s.bad;
  if (place.text_idx > 0) SX_TRY_VOID(s.open());
  while (s.place.text_idx < place.text_idx) {
    SX_TRY(const std::optional<std::string> text, s.next_in_file());
    if (!text) {
      return Error{ErrorKind::kCorrupt, "the file holds fewer texts than before",
                   s.files[s.place.file_idx].string()};
    }
  }
  s.bad = bad;
  return {};
}

std::uint64_t TextSource::bad_documents() const { return state_->bad; }
const std::vector<std::string>& TextSource::bad_examples() const { return state_->bad_examples; }

std::uint64_t TextSource::stored_bytes_read() const {
  const State& s = *state_;
  return s.stored_before + (s.jsonl ? s.jsonl->bytes_read() : s.plain ? s.plain->bytes_read() : 0);
}
std::uint64_t TextSource::stored_bytes_total() const { return state_->stored_total; }

}  // namespace sx
