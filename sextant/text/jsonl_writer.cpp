#include "sextant/text/jsonl_writer.h"

#include <zlib.h>
#include <zstd.h>

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sextant/base/check.h"
#include "sextant/base/fs.h"

namespace sx {

JsonlCodec jsonl_codec_for(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".zst") return JsonlCodec::kZstd;
  if (extension == ".gz") return JsonlCodec::kGzip;
  return JsonlCodec::kPlain;
}

namespace {

constexpr std::uint32_t kMaxFrames = 0x8000000;  // of the seekable format

void append_u32(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift & 0xFF);
}

}  // namespace

struct JsonlWriter::State {
  FileWriter file;
  Options options;
  JsonlCodec codec;
  std::string frame;
  std::string compressed;
  std::uint64_t lines = 0;
  std::uint64_t uncompressed_bytes = 0;
  ZSTD_CCtx* zstd = nullptr;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> frames;  // compressed, uncompressed bytes

  State(FileWriter writer, const Options& opts, JsonlCodec kind)
      : file(std::move(writer)), options(opts), codec(kind) {}
  ~State() { ZSTD_freeCCtx(zstd); }
  Result<void> flush_frame();
  Result<void> compress_zstd();
  Result<void> compress_gzip();
  std::string seek_table() const;
};

JsonlWriter::JsonlWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
JsonlWriter::JsonlWriter(JsonlWriter&&) noexcept = default;
JsonlWriter& JsonlWriter::operator=(JsonlWriter&&) noexcept = default;
JsonlWriter::~JsonlWriter() = default;
std::uint64_t JsonlWriter::lines() const { return state_->lines; }
std::uint64_t JsonlWriter::uncompressed_bytes() const { return state_->uncompressed_bytes; }

Result<JsonlWriter> JsonlWriter::create(const std::filesystem::path& path, Options options) {
  SX_CHECK(options.frame_bytes > 0 && options.frame_bytes <= (std::uint64_t{1} << 30),
           "frame_bytes {} is outside 1 to 2^30", options.frame_bytes);
  SX_TRY(auto file, FileWriter::create(path));
  auto state = std::make_unique<State>(std::move(file), options, jsonl_codec_for(path));
  if (state->codec == JsonlCodec::kZstd) {
    state->zstd = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(state->zstd, ZSTD_c_compressionLevel, options.zstd_level);
    ZSTD_CCtx_setParameter(state->zstd, ZSTD_c_checksumFlag, 1);
  }
  return JsonlWriter(std::move(state));
}

Result<void> JsonlWriter::State::compress_zstd() {
  compressed.resize(ZSTD_compressBound(frame.size()));
  const std::size_t size =
      ZSTD_compress2(zstd, compressed.data(), compressed.size(), frame.data(), frame.size());
  if (ZSTD_isError(size)) return Error{ErrorKind::kInternal, ZSTD_getErrorName(size), "zstd"};
  compressed.resize(size);
  if (size > 0xFFFFFFFFu || frame.size() > 0xFFFFFFFFu || frames.size() >= kMaxFrames) {
    return Error{ErrorKind::kLimit, "file passes the limits of the zstd seek table", ""};
  }
  frames.emplace_back(static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(frame.size()));
  return {};
}

Result<void> JsonlWriter::State::compress_gzip() {
  z_stream z{};
  if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    return Error{ErrorKind::kInternal, "zlib cannot start", "gzip"};
  }
  compressed.resize(deflateBound(&z, static_cast<uLong>(frame.size())));
  z.next_in = reinterpret_cast<Bytef*>(frame.data());
  z.avail_in = static_cast<uInt>(frame.size());
  z.next_out = reinterpret_cast<Bytef*>(compressed.data());
  z.avail_out = static_cast<uInt>(compressed.size());
  const int rc = deflate(&z, Z_FINISH);
  compressed.resize(compressed.size() - z.avail_out);
  deflateEnd(&z);
  if (rc != Z_STREAM_END) return Error{ErrorKind::kInternal, "zlib did not finish", "gzip"};
  return {};
}

Result<void> JsonlWriter::State::flush_frame() {
  if (frame.empty()) return {};
  if (codec == JsonlCodec::kPlain) {
    SX_TRY_VOID(file.write(frame));
  } else {
    SX_TRY_VOID(codec == JsonlCodec::kZstd ? compress_zstd() : compress_gzip());
    SX_TRY_VOID(file.write(compressed));
  }
  frame.clear();
  return {};
}

Result<void> JsonlWriter::write_line(std::string_view json) {
  SX_DCHECK(json.find('\n') == std::string_view::npos, "a JSON line holds a line end");
  State& s = *state_;
  s.frame += json;
  s.frame += '\n';
  ++s.lines;
  s.uncompressed_bytes += json.size() + 1;
  if (s.frame.size() >= s.options.frame_bytes) return s.flush_frame();
  return {};
}

/// Source: zstd's contrib/seekable_format/zstd_seekable_compression_format.md, version 0.1.0.
std::string JsonlWriter::State::seek_table() const {
  std::string out;
  append_u32(out, 0x184D2A5Eu);
  append_u32(out, static_cast<std::uint32_t>(frames.size() * 8 + 9));
  for (const auto& [stored, plain] : frames) {
    append_u32(out, stored);
    append_u32(out, plain);
  }
  append_u32(out, static_cast<std::uint32_t>(frames.size()));
  out += '\0';  // descriptor: no checksums in the table
  append_u32(out, 0x8F92EAB1u);
  return out;
}

Result<void> JsonlWriter::commit() {
  State& s = *state_;
  SX_TRY_VOID(s.flush_frame());
  if (s.codec == JsonlCodec::kZstd) SX_TRY_VOID(s.file.write(s.seek_table()));
  return s.file.commit();
}

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, begin, i - begin);
    begin = i + 1;
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\r': out += "\\r"; break;
      default:
        out += "\\u00";
        out += kHex[c >> 4];
        out += kHex[c & 15];
    }
  }
  out.append(text, begin);
  out += '"';
}

}  // namespace sx
