#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace sx {

/// Decoded bytes of an archive in memory, with the places where gzip members begin. Plain archives
/// are one member that is decoded already. Internal to the WARC reader.
class WarcStream {
 public:
  enum class Pull { kGot, kMemberEnd, kEnd, kCut, kError };

  WarcStream(std::string_view raw, bool gzip);
  ~WarcStream();
  WarcStream(const WarcStream&) = delete;
  WarcStream& operator=(const WarcStream&) = delete;

  bool gzip() const { return gzip_; }
  /// Decoded and not yet consumed.
  std::string_view data() const {
    return gzip_ ? std::string_view(buffer_).substr(pos_) : raw_.substr(raw_pos_);
  }
  void consume(std::size_t bytes);
  /// Decodes more of the current member: kGot, kMemberEnd (checksum was right), kCut (the file ends
  /// inside the member), kError (damaged; `error()` says how). Plain: kEnd.
  Pull pull();
  /// Begins the member behind the current one: kGot, kEnd, or kError when other bytes than a member
  /// or zeros stand there.
  Pull next_member();
  /// Begins the first member at or behind `from` whose content begins with "WARC/" (plain: line
  /// with a plausible record); false when there is none. What was decoded before is dropped.
  bool resync(std::uint64_t from);

  /// kError, kCut.
  std::uint64_t member_start() const {
    return member_start_;
  }  ///< plain: the place of the next byte
  std::uint64_t raw_position() const { return raw_pos_; }
  std::uint64_t raw_size() const { return raw_.size(); }
  std::string_view raw() const { return raw_; }
  const std::string& error() const { return error_; }

 private:
  Pull pull_member();
  void skip_zeros();
  std::string_view raw_;
  bool gzip_;
  std::uint64_t raw_pos_ = 0;
  std::uint64_t member_start_ = 0;
  bool in_member_ = false;
  Pull state_ = Pull::kMemberEnd;
  std::string buffer_;
  std::size_t pos_ = 0;
  z_stream zlib_{};
  z_stream probe_{};
  std::string error_;
};

/// Place of the first line at or behind `from` that begins a record: "WARC/d.d" and below it a
/// field line. npos if none.
std::size_t find_record_start(std::string_view bytes, std::size_t from);
/// True when `line_start` points at "WARC/d.d" with a line end behind it.
bool is_version_line(std::string_view bytes);
/// True when the gzip member at raw[at] begins with "WARC/".
bool gzip_member_holds_warc(std::string_view raw, std::uint64_t at);

}  // namespace sx
