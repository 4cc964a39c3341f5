#include "sextant/text/jsonl_reader.h"

#include <fmt/format.h>
#include <simdjson.h>

#include "sextant/text/byte_stream.h"

namespace sx {

struct LineReader::State {
  ByteStream stream;
  std::string path;
  std::uint64_t max_line_bytes;
  std::string buffer;
  std::size_t pos = 0;              // of the next line in buffer
  std::size_t scanned = 0;          // buffer[pos, scanned) holds no line end
  std::uint64_t buffer_offset = 0;  // of buffer[0] in the stream
  std::uint64_t line_number = 0;
  std::uint64_t offset = 0;
  bool end = false;
};

LineReader::LineReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;
LineReader::~LineReader() = default;
std::uint64_t LineReader::line_number() const { return state_->line_number; }
std::uint64_t LineReader::offset() const { return state_->offset; }
std::uint64_t LineReader::bytes_read() const { return state_->stream.bytes_read(); }
std::uint64_t LineReader::file_bytes() const { return state_->stream.file_bytes(); }

Result<LineReader> LineReader::open(const std::filesystem::path& path,
                                    std::uint64_t max_line_bytes) {
  SX_TRY(auto stream, ByteStream::open(path));
  auto state = std::make_unique<State>(State{std::move(stream), path.string(), max_line_bytes});
  return LineReader(std::move(state));
}

Result<std::optional<std::string_view>> LineReader::next() {
  State& s = *state_;
  for (;;) {
    const std::size_t newline = s.buffer.find('\n', s.scanned);
    if (newline != std::string::npos || (s.end && s.pos < s.buffer.size())) {
      const std::size_t stop = newline == std::string::npos ? s.buffer.size() : newline;
      std::string_view line(s.buffer.data() + s.pos, stop - s.pos);
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      s.offset = s.buffer_offset + s.pos;
      if (s.offset == 0 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
      ++s.line_number;
      s.pos = s.scanned = newline == std::string::npos ? stop : stop + 1;
      return std::optional(line);
    }
    if (s.end) return std::optional<std::string_view>();
    s.scanned = s.buffer.size();
    if (s.buffer.size() - s.pos > s.max_line_bytes) {
      s.end = true;
      s.pos = s.scanned = s.buffer.size();
      return Error{ErrorKind::kLimit, fmt::format("line is longer than {} bytes", s.max_line_bytes),
                   fmt::format("{}:{}", s.path, s.line_number + 1)};
    }
    if (s.pos > 0) {
      s.buffer.erase(0, s.pos);
      s.buffer_offset += s.pos;
      s.scanned -= s.pos;
      s.pos = 0;
    }
    auto more = s.stream.read_some(s.buffer);
    if (!more.ok()) {
      s.end = true;
      s.buffer.clear();
      s.pos = s.scanned = 0;
      return std::move(more).error();
    }
    s.end = !*more;
  }
}

struct JsonlReader::State {
  LineReader lines;
  std::string path;
  std::string text_key;
  simdjson::dom::parser parser;
  std::string repaired;
  std::string_view text;
  std::string id;

  State(LineReader reader, std::string file, std::string key)
      : lines(std::move(reader)), path(std::move(file)), text_key(std::move(key)) {}
};

JsonlReader::JsonlReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
JsonlReader::JsonlReader(JsonlReader&&) noexcept = default;
JsonlReader& JsonlReader::operator=(JsonlReader&&) noexcept = default;
JsonlReader::~JsonlReader() = default;
std::uint64_t JsonlReader::bytes_read() const { return state_->lines.bytes_read(); }
std::uint64_t JsonlReader::file_bytes() const { return state_->lines.file_bytes(); }

Result<JsonlReader> JsonlReader::open(const std::filesystem::path& path, std::string text_key) {
  SX_TRY(auto lines, LineReader::open(path));
  auto state = std::make_unique<State>(std::move(lines), path.string(), std::move(text_key));
  return JsonlReader(std::move(state));
}

namespace {

int hex_value(std::string_view four) {
  int value = 0;
  for (const char c : four) {
    const int digit = c >= '0' && c <= '9'                 ? c - '0'
                      : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                           : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/// Escapes of surrogates that have no partner, rewritten as \ufffd.
std::string replace_lone_surrogates(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] != '\\' || i + 1 >= json.size()) {
      out += json[i];
      continue;
    }
    const int unit =
        json[i + 1] == 'u' && i + 6 <= json.size() ? hex_value(json.substr(i + 2, 4)) : -1;
    if (unit < 0xD800 || unit > 0xDFFF) {
      out += json.substr(i, 2);
      ++i;
      continue;
    }
    const bool pair = unit < 0xDC00 && i + 12 <= json.size() && json[i + 6] == '\\' &&
                      json[i + 7] == 'u' && (hex_value(json.substr(i + 8, 4)) & 0xFC00) == 0xDC00;
    if (pair)
      out += json.substr(i, 12);
    else
      out += "\\ufffd";
    i += pair ? 11 : 5;
  }
  return out;
}

/// Reads the two fields; `found` says whether the text was there. Views live until the parser's
/// next use.
simdjson::error_code read_fields(simdjson::dom::parser& parser, std::string_view line,
                                 const std::string& text_key, std::string_view& text,
                                 std::string& id, bool& found) {
  found = false;
  id.clear();
  simdjson::dom::object object;
  if (auto e = parser.parse(line.data(), line.size()).get_object().get(object)) return e;
  for (const auto field : object) {
    if (field.key == text_key) {
      if (auto e = field.value.get_string().get(text)) return e;
      found = true;
    } else if (field.key == "id") {
      std::string_view view;
      id = field.value.get_string().get(view) ? simdjson::minify(field.value) : std::string(view);
    }
  }
  return simdjson::SUCCESS;
}

}  // namespace

Result<std::optional<JsonlDocument>> JsonlReader::next() {
  State& s = *state_;
  for (;;) {
    SX_TRY(const auto line, s.lines.next());
    if (!line) return std::optional<JsonlDocument>();
    if (line->find_first_not_of(" \t") == std::string_view::npos) continue;
    bool found = false;
    auto error = read_fields(s.parser, *line, s.text_key, s.text, s.id, found);
    if (error == simdjson::STRING_ERROR) {
      s.repaired = replace_lone_surrogates(*line);
      error = read_fields(s.parser, s.repaired, s.text_key, s.text, s.id, found);
    }
    const auto where = [&] { return fmt::format("{}:{}", s.path, s.lines.line_number()); };
    if (error)
      return Error{ErrorKind::kInvalid,
                   fmt::format("not a JSON object with text: {}", simdjson::error_message(error)),
                   where()};
    if (!found)
      return Error{ErrorKind::kInvalid, fmt::format("no field \"{}\"", s.text_key), where()};
    JsonlDocument document;
    document.text = s.text;
    document.id = s.id;
    document.line = *line;
    document.line_number = s.lines.line_number();
    document.offset = s.lines.offset();
    return std::optional(document);
  }
}

}  // namespace sx
