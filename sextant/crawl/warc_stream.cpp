#include "sextant/crawl/warc_stream.h"

#include <algorithm>

#include "sextant/base/check.h"

namespace sx {

namespace {

constexpr std::string_view kGzipMagic("\x1f\x8b\x08", 3);
constexpr std::size_t kPullBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxFeed = std::size_t{1} << 20;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// First bytes of the member's content; empty when it does not inflate.
bool probe_member(z_stream& z, std::string_view raw, std::uint64_t at) {
  inflateReset(&z);
  char head[8];
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(raw.data() + at));
  z.avail_in = static_cast<uInt>(std::min<std::uint64_t>(raw.size() - at, 4096));
  z.next_out = reinterpret_cast<Bytef*>(head);
  z.avail_out = sizeof head;
  const int rc = inflate(&z, Z_SYNC_FLUSH);
  const std::size_t got = sizeof head - z.avail_out;
  return (rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR) && got >= 5 &&
         std::string_view(head, 5) == "WARC/";
}

}  // namespace

bool is_version_line(std::string_view b) {
  return b.size() >= 9 && b.starts_with("WARC/") && is_digit(b[5]) && b[6] == '.' &&
         is_digit(b[7]) &&
         (b[8] == '\r' || b[8] == '\n' ||
          (is_digit(b[8]) && b.size() >= 10 && (b[9] == '\r' || b[9] == '\n')));
}

std::size_t find_record_start(std::string_view bytes, std::size_t from) {
  for (std::size_t at = bytes.find("WARC/", from); at != std::string_view::npos;
       at = bytes.find("WARC/", at + 1)) {
    if (at > 0 && bytes[at - 1] != '\n') continue;
    if (!is_version_line(bytes.substr(at))) continue;
    const std::size_t line_end = bytes.find('\n', at);
    if (line_end == std::string_view::npos) continue;
    const std::string_view field = bytes.substr(line_end + 1, 64);
    const std::size_t colon = field.find(':');
    if (colon == std::string_view::npos || colon == 0 ||
        field.substr(0, colon).find_first_of("\r\n \t<") != std::string_view::npos)
      continue;
    return at;
  }
  return std::string_view::npos;
}

bool gzip_member_holds_warc(std::string_view raw, std::uint64_t at) {
  z_stream z{};
  SX_CHECK(inflateInit2(&z, 15 + 16) == Z_OK, "zlib cannot start");
  const bool holds = probe_member(z, raw, at);
  inflateEnd(&z);
  return holds;
}

WarcStream::WarcStream(std::string_view raw, bool gzip) : raw_(raw), gzip_(gzip) {
  if (!gzip_) return;
  SX_CHECK(inflateInit2(&zlib_, 15 + 16) == Z_OK && inflateInit2(&probe_, 15 + 16) == Z_OK,
           "zlib cannot start");
}

WarcStream::~WarcStream() {
  if (!gzip_) return;
  inflateEnd(&zlib_);
  inflateEnd(&probe_);
}

void WarcStream::consume(std::size_t bytes) {
  if (!gzip_) {
    raw_pos_ += bytes;
    member_start_ = raw_pos_;
    return;
  }
  pos_ += bytes;
  if (pos_ == buffer_.size()) {
    buffer_.clear();
    pos_ = 0;
  } else if (pos_ > (std::size_t{1} << 20)) {
    buffer_.erase(0, pos_);
    pos_ = 0;
  }
}

WarcStream::Pull WarcStream::pull() {
  if (!gzip_) return Pull::kEnd;
  if (!in_member_) return state_ == Pull::kGot ? Pull::kMemberEnd : state_;
  const Pull got = pull_member();
  state_ = in_member_ ? got : Pull::kMemberEnd;
  return got;
}

WarcStream::Pull WarcStream::pull_member() {
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kPullBytes);
  int rc = Z_OK;
  zlib_.next_out = reinterpret_cast<Bytef*>(buffer_.data() + before);
  zlib_.avail_out = kPullBytes;
  while (zlib_.avail_out > 0 && rc == Z_OK) {
    const std::size_t feed = std::min<std::uint64_t>(raw_.size() - raw_pos_, kMaxFeed);
    zlib_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(raw_.data() + raw_pos_));
    zlib_.avail_in = static_cast<uInt>(feed);
    rc = inflate(&zlib_, Z_NO_FLUSH);
    raw_pos_ += feed - zlib_.avail_in;
    if (rc == Z_OK && feed == 0) rc = Z_BUF_ERROR;
  }
  const std::size_t got = kPullBytes - zlib_.avail_out;
  buffer_.resize(before + got);
  if (rc == Z_STREAM_END) {
    in_member_ = false;
    skip_zeros();
    return got > 0 ? Pull::kGot : Pull::kMemberEnd;
  }
  if (rc == Z_OK) return Pull::kGot;
  if (rc == Z_BUF_ERROR) return got > 0 ? Pull::kGot : Pull::kCut;
  error_ = std::string("gzip data is damaged: ") + (zlib_.msg ? zlib_.msg : "no detail");
  return Pull::kError;
}

void WarcStream::skip_zeros() {
  while (raw_pos_ < raw_.size() && raw_[raw_pos_] == '\0') ++raw_pos_;
}

WarcStream::Pull WarcStream::next_member() {
  if (!gzip_ || raw_pos_ >= raw_.size()) return Pull::kEnd;
  member_start_ = raw_pos_;
  if (!raw_.substr(raw_pos_).starts_with(kGzipMagic)) {
    error_ = "no gzip member where one must begin";
    state_ = Pull::kError;
    return Pull::kError;
  }
  inflateReset(&zlib_);
  in_member_ = true;
  state_ = Pull::kGot;
  return Pull::kGot;
}

bool WarcStream::resync(std::uint64_t from) {
  buffer_.clear();
  pos_ = 0;
  in_member_ = false;
  state_ = Pull::kMemberEnd;
  if (!gzip_) {
    const std::size_t at = find_record_start(raw_, from);
    raw_pos_ = member_start_ = at == std::string_view::npos ? raw_.size() : at;
    return at != std::string_view::npos;
  }
  std::size_t at = raw_.find(kGzipMagic, from);
  while (at != std::string_view::npos && !probe_member(probe_, raw_, at))
    at = raw_.find(kGzipMagic, at + 1);
  raw_pos_ = member_start_ = at == std::string_view::npos ? raw_.size() : at;
  return at != std::string_view::npos && next_member() == Pull::kGot;
}

}  // namespace sx
