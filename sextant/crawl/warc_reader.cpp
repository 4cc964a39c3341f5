#include "sextant/crawl/warc_reader.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "sextant/base/mmap.h"
#include "sextant/crawl/warc_stream.h"
#include "sextant/text/ascii.h"
#include "sextant/text/decoder.h"
#include "sextant/text/encoding.h"
#include "sextant/text/utf8.h"

namespace sx {

namespace {

constexpr std::size_t kStartWindow = 256;  // enough to tell a record's first two lines

bool is_line_end(char c) { return c == '\r' || c == '\n'; }
std::string_view trim(std::string_view text) {
  while (!text.empty() &&
         (text.front() == ' ' || text.front() == '\t' || is_line_end(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || is_line_end(text.back())))
    text.remove_suffix(1);
  return text;
}
std::string_view without_brackets(std::string_view text) {
  if (text.size() >= 2 && text.front() == '<' && text.back() == '>')
    return text.substr(1, text.size() - 2);
  return text;
}

WarcType type_of(std::string_view name) {
  static constexpr std::pair<std::string_view, WarcType> kTypes[] = {
      {"warcinfo", WarcType::kWarcinfo},     {"response", WarcType::kResponse},
      {"resource", WarcType::kResource},     {"request", WarcType::kRequest},
      {"metadata", WarcType::kMetadata},     {"revisit", WarcType::kRevisit},
      {"conversion", WarcType::kConversion}, {"continuation", WarcType::kContinuation}};
  for (const auto& [text, type] : kTypes) {
    if (equal_fold(name, text)) return type;
  }
  return WarcType::kOther;
}

/// Length of the header block up to and with its blank line; 0 = not complete, npos = no header.
std::size_t header_length(std::string_view data, std::uint64_t max_bytes) {
  if (!is_version_line(data))
    return data.size() < 10 && std::string_view("WARC/").starts_with(data.substr(0, 5))
               ? 0
               : std::string_view::npos;
  std::size_t line = data.find('\n');
  while (line != std::string_view::npos && line < max_bytes) {
    const std::string_view rest = data.substr(line + 1);
    if (rest.starts_with("\n")) return line + 2;
    if (rest.starts_with("\r\n")) return line + 3;
    if (is_version_line(rest))
      return std::string_view::npos;  // the next record: this one has no body
    line = data.find('\n', line + 1);
  }
  return data.size() >= max_bytes ? std::string_view::npos : 0;
}

}  // namespace

const char* to_string(WarcType type) {
  switch (type) {
    case WarcType::kWarcinfo: return "warcinfo";
    case WarcType::kResponse: return "response";
    case WarcType::kResource: return "resource";
    case WarcType::kRequest: return "request";
    case WarcType::kMetadata: return "metadata";
    case WarcType::kRevisit: return "revisit";
    case WarcType::kConversion: return "conversion";
    case WarcType::kContinuation: return "continuation";
    case WarcType::kOther: break;
  }
  return "other";
}

const std::string* find_field(const HeaderFields& fields, std::string_view name) {
  for (const auto& [key, value] : fields) {
    if (equal_fold(key, name)) return &value;
  }
  return nullptr;
}

HeaderFields parse_fields(std::string_view block, std::uint64_t& quirks) {
  HeaderFields fields;
  while (!block.empty()) {
    const std::size_t newline = block.find('\n');
    std::string_view line = block.substr(0, newline);
    block.remove_prefix(newline == std::string_view::npos ? block.size() : newline + 1);
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    else if (newline != std::string_view::npos)
      ++quirks;
    if (line.empty()) continue;
    if ((line.front() == ' ' || line.front() == '\t') && !fields.empty()) {
      fields.back().second += ' ';
      fields.back().second += trim(line);
      continue;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) {
      ++quirks;
      continue;
    }
    fields.emplace_back(trim(line.substr(0, colon)), trim(line.substr(colon + 1)));
  }
  for (auto& [name, value] : fields) {
    if (!is_valid_utf8(name)) name = decode_bytes(name, kWindows1252).text;
    if (!is_valid_utf8(value)) value = decode_bytes(value, kWindows1252).text;
  }
  return fields;
}

class WarcReader::State {
 public:
  State(MappedFile file, std::string_view raw, std::string name, bool gzip, WarcLimits limits)
      : file_(std::move(file)), stream_(raw, gzip), name_(std::move(name)), limits_(limits) {}

  Result<std::optional<WarcRecord>> next();
  const WarcGap& gap() const { return gap_; }
  std::uint64_t trailing() const { return trailing_; }
  std::uint64_t position() const { return std::max(accounted_, stream_.raw_position()); }
  std::uint64_t file_bytes() const { return stream_.raw_size(); }

 private:
  using Pull = WarcStream::Pull;
  enum class Outcome { kOk, kClipped, kDamaged };

  Error report_gap(std::string cause, std::uint64_t end) {
    gap_ = WarcGap{accounted_, end - accounted_, std::move(cause)};
    accounted_ = end;
    return Error{ErrorKind::kCorrupt, gap_.cause, fmt::format("{}:offset {}", name_, gap_.offset)};
  }
  /// Moves to the next record behind `from` and reports what lies between as one gap.
  Error resync(std::string cause, std::uint64_t from) {
    stream_.resync(from);
    return report_gap(std::move(cause), stream_.member_start());
  }
  Error damaged(std::string cause);
  Pull pull_any();
  bool at_record_start();
  Outcome read_header(std::string& header, std::string& cause);
  Outcome read_block(WarcRecord& record, std::string& cause);
  Outcome read_separator(WarcRecord& record, std::string& cause);
  bool fill_record(std::string_view header, WarcRecord& record, std::string& cause);

  MappedFile file_;
  WarcStream stream_;
  std::string name_;
  WarcLimits limits_;
  WarcGap gap_;
  std::uint64_t accounted_ = 0;   // of the stored file: told of in records and gaps
  std::uint64_t header_end_ = 0;  // plain: where the search for the next record begins after damage
  std::uint64_t trailing_ = 0;
};

/// Next decoded bytes, over the border of members.
WarcStream::Pull WarcReader::State::pull_any() {
  const Pull got = stream_.pull();
  return got == Pull::kMemberEnd ? stream_.next_member() : got;
}

/// After a member's border: does the new member begin a record?
bool WarcReader::State::at_record_start() {
  while (stream_.data().size() < 10 && stream_.pull() == Pull::kGot) {
  }
  return is_version_line(stream_.data());
}

Error WarcReader::State::damaged(std::string cause) {
  if (!stream_.gzip())
    return resync(std::move(cause), std::max<std::uint64_t>(header_end_, accounted_ + 1));
  // What stands here was tried already; the member may be sound and hold more records behind it.
  if (!stream_.data().empty()) stream_.consume(1);
  Pull got = Pull::kGot;
  while (got == Pull::kGot) {
    const std::string_view data = stream_.data();
    if (const std::size_t at = find_record_start(data, 0); at != std::string_view::npos) {
      stream_.consume(at);
      return report_gap(std::move(cause), std::max(accounted_, stream_.raw_position()));
    }
    stream_.consume(data.size() - std::min(data.size(), kStartWindow));
    got = stream_.pull();
  }
  if (got == Pull::kMemberEnd) {
    stream_.consume(stream_.data().size());
    return resync(std::move(cause), std::max(accounted_, stream_.raw_position()));
  }
  return resync(std::move(cause), std::max(accounted_, stream_.member_start() + 1));
}

WarcReader::State::Outcome WarcReader::State::read_header(std::string& header, std::string& cause) {
  for (;;) {
    const std::size_t length = header_length(stream_.data(), limits_.max_header_bytes);
    if (length == std::string_view::npos) {
      cause = "no record header";
      return Outcome::kDamaged;
    }
    if (length > 0) {
      header.assign(stream_.data().substr(0, length));
      stream_.consume(length);
      header_end_ = stream_.raw_position();
      return Outcome::kOk;
    }
    const Pull got = pull_any();
    if (got == Pull::kGot) continue;
    cause = got == Pull::kError ? stream_.error() : "the file ends inside a record header";
    return Outcome::kDamaged;
  }
}

bool WarcReader::State::fill_record(std::string_view header, WarcRecord& record,
                                    std::string& cause) {
  const std::size_t first_line = header.find('\n');
  record.version = trim(header.substr(0, first_line));
  if (first_line == 0 || header[first_line - 1] != '\r') ++record.quirks;
  record.fields = parse_fields(header.substr(first_line + 1), record.quirks);
  const auto get = [&](std::string_view name, std::string_view old_name = {}) -> std::string_view {
    const std::string* value = find_field(record.fields, name);
    if (value == nullptr && !old_name.empty()) value = find_field(record.fields, old_name);
    return value ? std::string_view(*value) : std::string_view();
  };
  record.type = type_of(get("WARC-Type", "record-type"));
  record.id = without_brackets(get("WARC-Record-ID", "record-id"));
  record.date = get("WARC-Date", "archive-date");
  record.content_type = get("Content-Type");
  for (const char c : without_brackets(get("WARC-Target-URI", "uri"))) {
    if (c == ' ')
      record.url += "%20";
    else
      record.url += c;
  }
  record.truncated = find_field(record.fields, "WARC-Truncated") != nullptr;
  const std::string_view length = get("Content-Length");
  if (length.empty()) {
    ++record.quirks;
    record.declared_bytes = UINT64_MAX;
    return true;
  }
  const auto parsed =
      std::from_chars(length.data(), length.data() + length.size(), record.declared_bytes);
  if (parsed.ec != std::errc() || parsed.ptr != length.data() + length.size() ||
      record.declared_bytes == UINT64_MAX) {
    cause = fmt::format("Content-Length \"{}\" is no length", length.substr(0, 40));
    return false;
  }
  return true;
}

WarcReader::State::Outcome WarcReader::State::read_block(WarcRecord& record, std::string& cause) {
  const bool unknown = record.declared_bytes == UINT64_MAX;
  record.too_large = !unknown && record.declared_bytes > limits_.max_block_bytes;
  if (!stream_.gzip() && (unknown || record.declared_bytes > stream_.data().size())) {
    const std::size_t next = find_record_start(stream_.raw(), stream_.raw_position());
    if (!unknown && next != std::string_view::npos) {
      cause = "block is shorter than declared";
      return Outcome::kDamaged;
    }
    const std::size_t end = next == std::string_view::npos ? stream_.raw_size() : next;
    record.block = stream_.data().substr(
        0, std::min<std::uint64_t>(end - stream_.raw_position(), limits_.max_block_bytes));
    stream_.consume(end - stream_.raw_position());
    if (unknown) record.block = std::string(trim(record.block));
    return unknown ? Outcome::kOk : Outcome::kClipped;
  }
  std::uint64_t left = record.declared_bytes;
  while (left > 0) {
    if (stream_.data().empty()) {
      Pull got = stream_.pull();
      if (got == Pull::kMemberEnd && unknown) break;
      if (got == Pull::kMemberEnd) {
        got = stream_.next_member();
        if (got == Pull::kGot && at_record_start()) {
          cause = "block is shorter than declared";
          return Outcome::kDamaged;
        }
      }
      if (got == Pull::kError) {
        cause = stream_.error();
        return Outcome::kDamaged;
      }
      if (got == Pull::kEnd || got == Pull::kCut) return unknown ? Outcome::kOk : Outcome::kClipped;
      continue;
    }
    const std::string_view piece =
        stream_.data().substr(0, std::min<std::uint64_t>(left, stream_.data().size()));
    if (!record.too_large) record.block += piece;
    if (unknown && record.block.size() > limits_.max_block_bytes) {
      record.too_large = true;
      record.block.clear();
    }
    left -= piece.size();
    stream_.consume(piece.size());
  }
  if (unknown) record.block = std::string(trim(record.block));
  return Outcome::kOk;
}

/// Passes over the line ends behind a block, up to the end of the member, so that its checksum is
/// seen.
WarcReader::State::Outcome WarcReader::State::read_separator(WarcRecord& record,
                                                             std::string& cause) {
  std::size_t line_ends = 0;
  for (;;) {
    const std::string_view data = stream_.data();
    std::size_t n = 0;
    while (n < data.size() && is_line_end(data[n])) ++n;
    line_ends += n;
    const bool more = n < data.size();
    stream_.consume(n);
    if (more) {
      while (stream_.data().size() < 10 && stream_.pull() == Pull::kGot) {
      }
      // Behind a blank line this record is whole, and what follows is damage of its own.
      if (is_version_line(stream_.data()) || line_ends >= 2) break;
      cause = "block is longer than declared";
      return Outcome::kDamaged;
    }
    const Pull got = stream_.pull();
    if (got == Pull::kGot) continue;
    if (got == Pull::kError) {
      cause = stream_.error();
      return Outcome::kDamaged;
    }
    if (got == Pull::kCut) record.clipped = record.truncated = true;
    break;
  }
  if (line_ends != 4) ++record.quirks;
  return Outcome::kOk;
}

Result<std::optional<WarcRecord>> WarcReader::State::next() {
  for (;;) {  // to the first byte of a record
    const std::string_view data = stream_.data();
    std::size_t n = 0;
    while (n < data.size() && is_line_end(data[n])) ++n;
    const bool found = n < data.size();
    stream_.consume(n);
    if (found) break;
    const Pull got = pull_any();
    if (got == Pull::kGot) continue;
    if (got == Pull::kError) return damaged(stream_.error());
    if (got == Pull::kCut && accounted_ < stream_.raw_size()) {
      stream_.resync(stream_.raw_size());
      return report_gap("the file ends inside a gzip member", stream_.raw_size());
    }
    trailing_ += stream_.raw_size() - accounted_;
    accounted_ = stream_.raw_size();
    return std::optional<WarcRecord>();
  }

  WarcRecord record;
  record.offset = std::max(accounted_, stream_.member_start());
  header_end_ = stream_.raw_position() + 1;
  std::string header;
  std::string cause;
  if (read_header(header, cause) != Outcome::kOk) return damaged(std::move(cause));
  if (!fill_record(header, record, cause)) return damaged(std::move(cause));
  const Outcome block = read_block(record, cause);
  if (block == Outcome::kDamaged) {
    if (stream_.gzip() && at_record_start())
      return report_gap(std::move(cause), stream_.member_start());
    return damaged(std::move(cause));
  }
  if (block == Outcome::kClipped) {
    record.clipped = record.truncated = true;
    stream_.resync(stream_.raw_size());
  } else if (read_separator(record, cause) != Outcome::kOk) {
    return damaged(std::move(cause));
  }
  if (record.declared_bytes == UINT64_MAX) record.declared_bytes = record.block.size();
  const std::uint64_t end = stream_.raw_position();
  record.stored_bytes = end - accounted_;
  accounted_ = end;
  return std::optional(std::move(record));
}

namespace {

bool looks_gzip(std::string_view raw) {
  if (raw.starts_with("\x1f\x8b")) return true;
  std::string_view head = raw;
  while (!head.empty() && is_line_end(head.front())) head.remove_prefix(1);
  if (head.starts_with("WARC/")) return false;
  // The beginning is damaged: what begins a record first decides.
  const std::size_t plain = find_record_start(raw, 0);
  const std::string_view before = raw.substr(0, plain);
  for (std::size_t at = before.find("\x1f\x8b\x08"); at != std::string_view::npos;
       at = before.find("\x1f\x8b\x08", at + 1)) {
    if (gzip_member_holds_warc(raw, at)) return true;
  }
  return false;
}

/// Archives of other kinds, by their first bytes.
const char* foreign_kind(std::string_view raw) {
  if (raw.starts_with("filedesc:")) return "ARC version 1";
  if (raw.starts_with("\x28\xB5\x2F\xFD") || raw.starts_with("\x5D\x2A\x4D\x18")) return "zstd";
  if (raw.starts_with("\x04\x22\x4D\x18")) return "lz4";
  if (raw.starts_with("BZh")) return "bzip2";
  if (raw.starts_with("\x1f\x8b")) {
    WarcStream stream(raw, true);
    if (stream.next_member() == WarcStream::Pull::kGot && stream.pull() == WarcStream::Pull::kGot &&
        stream.data().starts_with("filedesc:")) {
      return "gzip-compressed ARC version 1";
    }
  }
  return nullptr;
}

}  // namespace

WarcReader::WarcReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
WarcReader::WarcReader(WarcReader&&) noexcept = default;
WarcReader& WarcReader::operator=(WarcReader&&) noexcept = default;
WarcReader::~WarcReader() = default;
Result<std::optional<WarcRecord>> WarcReader::next() { return state_->next(); }
const WarcGap& WarcReader::last_gap() const { return state_->gap(); }
std::uint64_t WarcReader::trailing_bytes() const { return state_->trailing(); }
std::uint64_t WarcReader::position() const { return state_->position(); }
std::uint64_t WarcReader::file_bytes() const { return state_->file_bytes(); }

Result<WarcReader> WarcReader::open(const std::filesystem::path& path, WarcLimits limits) {
  SX_TRY(auto file, MappedFile::open(path));
  const std::string_view raw = file.text();
  if (const char* kind = foreign_kind(raw)) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("this is {}: WARC files, plain or gzip, are read", kind),
                 path.string()};
  }
  return WarcReader(
      std::make_unique<State>(std::move(file), raw, path.string(), looks_gzip(raw), limits));
}

Result<WarcReader> WarcReader::from_memory(std::string_view bytes, std::string name,
                                           WarcLimits limits) {
  if (const char* kind = foreign_kind(bytes)) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("this is {}: WARC files, plain or gzip, are read", kind), name};
  }
  return WarcReader(
      std::make_unique<State>(MappedFile(), bytes, std::move(name), looks_gzip(bytes), limits));
}

}  // namespace sx
