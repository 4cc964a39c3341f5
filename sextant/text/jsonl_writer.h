#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "sextant/base/result.h"

namespace sx {

/// How lines are stored.
enum class JsonlCodec { kPlain, kGzip, kZstd };

/// By the name's end: .zst, .gz, else plain.
JsonlCodec jsonl_codec_for(const std::filesystem::path& path);

/// Writes JSON lines; the file appears under its name only at `commit()`.
///
/// zstd: frames of about `frame_bytes` uncompressed bytes that end at a line, each with content
/// size and checksum, so that a reader may start at any frame; after them a seek table in a
/// skippable frame (magic 0x184D2A5E, zstd seekable format, without frame checksums). gzip: one
/// member per frame likewise. Bytes are a function of the lines, the options and the version of the
/// compression library. Not thread-safe.
class JsonlWriter {
 public:
  struct Options {
    std::uint64_t frame_bytes = std::uint64_t{4} << 20;
    int zstd_level = 3;
  };
  static Result<JsonlWriter> create(const std::filesystem::path& path, Options options);
  static Result<JsonlWriter> create(const std::filesystem::path& path) {
    return create(path, Options{});
  }
  JsonlWriter(JsonlWriter&&) noexcept;
  JsonlWriter& operator=(JsonlWriter&&) noexcept;
  ~JsonlWriter();  ///< without commit the file is given up

  /// One line; `json` holds no line end.
  Result<void> write_line(std::string_view json);
  std::uint64_t lines() const;
  std::uint64_t uncompressed_bytes() const;
  Result<void> commit();

 private:
  struct State;
  explicit JsonlWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// `text` as a JSON string with its quotes: UTF-8 kept, control characters, quote and backslash
/// escaped.
void append_json_string(std::string& out, std::string_view text);

}  // namespace sx
