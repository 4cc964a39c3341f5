#include "sextant/crawl/http_payload.h"

#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "sextant/text/ascii.h"

namespace sx {

namespace {

constexpr std::size_t kMaxHttpHeader = std::size_t{64} << 10;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
std::string lower_trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), to_lower);
  return out;
}

struct Chunked {
  std::string body;
  std::size_t good_chunks = 0;
  bool complete = false;  // up to the last chunk
  bool began = false;     // the first line is a chunk size
};

/// Hex digits (at most 8), an optional extension, a line end. npos when there is none.
std::size_t read_chunk_size(std::string_view line, std::uint64_t& size) {
  std::size_t i = 0;
  size = 0;
  while (i < line.size() && i < 9) {
    const char c = to_lower(line[i]);
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) break;
    size = size * 16 + static_cast<std::uint64_t>(digit);
    ++i;
  }
  if (i == 0 || i == 9) return std::string_view::npos;
  while (i < line.size() && (line[i] == ' ' || line[i] == '\t')) ++i;
  if (i < line.size() && line[i] == ';') {
    while (i < line.size() && line[i] != '\n' && i < 4096) ++i;
  } else if (i < line.size() && line[i] == '\r') {
    ++i;
  }
  return i < line.size() && line[i] == '\n' ? i + 1 : std::string_view::npos;
}

Chunked remove_chunks(std::string_view body) {
  Chunked out;
  std::size_t pos = 0;
  for (;;) {
    std::uint64_t size = 0;
    const std::size_t line = read_chunk_size(body.substr(pos), size);
    if (line == std::string_view::npos) return out;
    out.began = true;
    pos += line;
    if (size == 0) {
      out.complete = true;
      return out;
    }
    const std::string_view data = body.substr(pos, size);
    pos += data.size();
    const std::string_view rest = body.substr(pos);
    const std::size_t end = rest.starts_with("\r\n") ? 2 : rest.starts_with("\n") ? 1 : 0;
    if (data.size() < size || end == 0) {
      if (out.good_chunks > 0 || data.size() < size) out.body += data;
      return out;
    }
    out.body += data;
    ++out.good_chunks;
    pos += end;
  }
}

struct Unpacked {
  std::string bytes;
  bool complete = false;
  bool over_limit = false;
};

Unpacked unpack_zlib(std::string_view in, int window_bits, std::uint64_t limit) {
  Unpacked out;
  z_stream z{};
  if (inflateInit2(&z, window_bits) != Z_OK) return out;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
  z.avail_in = static_cast<uInt>(std::min<std::size_t>(in.size(), UINT32_MAX));
  for (;;) {
    const std::size_t before = out.bytes.size();
    const std::size_t piece = std::size_t{64} << 10;
    out.bytes.resize(before + piece);
    z.next_out = reinterpret_cast<Bytef*>(out.bytes.data() + before);
    z.avail_out = static_cast<uInt>(piece);
    const int rc = inflate(&z, Z_NO_FLUSH);
    out.bytes.resize(before + piece - z.avail_out);
    out.over_limit = out.bytes.size() > limit;
    out.complete = rc == Z_STREAM_END;
    if (rc == Z_STREAM_END && window_bits == 31 && z.avail_in > 2 && z.next_in[0] == 0x1f &&
        z.next_in[1] == 0x8b) {
      inflateReset(&z);
      continue;
    }
    if (rc != Z_OK || out.over_limit || (z.avail_in == 0 && z.avail_out > 0)) break;
  }
  inflateEnd(&z);
  return out;
}

Unpacked unpack_brotli(std::string_view in, std::uint64_t limit) {
  Unpacked out;
  const std::unique_ptr<BrotliDecoderState, void (*)(BrotliDecoderState*)> state(
      BrotliDecoderCreateInstance(nullptr, nullptr, nullptr), BrotliDecoderDestroyInstance);
  std::size_t in_left = in.size();
  const auto* next_in = reinterpret_cast<const std::uint8_t*>(in.data());
  for (;;) {
    const std::size_t before = out.bytes.size();
    std::size_t out_left = std::size_t{64} << 10;
    out.bytes.resize(before + out_left);
    auto* next_out = reinterpret_cast<std::uint8_t*>(out.bytes.data() + before);
    const auto rc = BrotliDecoderDecompressStream(state.get(), &in_left, &next_in, &out_left,
                                                  &next_out, nullptr);
    out.bytes.resize(out.bytes.size() - out_left);
    out.over_limit = out.bytes.size() > limit;
    out.complete = rc == BROTLI_DECODER_RESULT_SUCCESS;
    if (rc != BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT || out.over_limit) return out;
  }
}

Unpacked unpack_zstd(std::string_view in, std::uint64_t limit) {
  Unpacked out;
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                        ZSTD_freeDCtx);
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax,
                         23);  // RFC 9659: at most 8 MiB on the web
  ZSTD_inBuffer source{in.data(), in.size(), 0};
  for (;;) {
    const std::size_t before = out.bytes.size();
    const std::size_t piece = std::size_t{64} << 10;
    out.bytes.resize(before + piece);
    ZSTD_outBuffer target{out.bytes.data() + before, piece, 0};
    const std::size_t rc = ZSTD_decompressStream(context.get(), &target, &source);
    out.bytes.resize(before + target.pos);
    out.over_limit = out.bytes.size() > limit;
    out.complete = rc == 0;
    if (ZSTD_isError(rc) || out.over_limit || target.pos < piece) return out;
  }
}

/// One layer; nothing when the bytes are not of this encoding at all.
std::optional<Unpacked> unpack(std::string_view encoding, std::string_view in,
                               std::uint64_t limit) {
  const auto nonempty = [](Unpacked u) {
    return u.bytes.empty() && !u.complete ? std::nullopt : std::optional(std::move(u));
  };
  if (encoding == "gzip" || encoding == "x-gzip") {
    return in.starts_with("\x1f\x8b") ? nonempty(unpack_zlib(in, 31, limit)) : std::nullopt;
  }
  if (encoding == "deflate") {
    auto with_header = nonempty(unpack_zlib(in, 15, limit));
    if (with_header) return with_header;
    auto bare = unpack_zlib(in, -15, limit);
    return bare.complete || bare.over_limit ? std::optional(std::move(bare)) : std::nullopt;
  }
  if (encoding == "zstd")
    return in.starts_with("\x28\xB5\x2F\xFD") ? nonempty(unpack_zstd(in, limit)) : std::nullopt;
  auto brotli = unpack_brotli(in, limit);
  return brotli.complete || brotli.over_limit ? std::optional(std::move(brotli)) : std::nullopt;
}

bool looks_like_text(std::string_view body) {
  const std::string_view head = body.substr(0, 1024);
  const auto control = std::count_if(head.begin(), head.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && !is_space(c)) || c == 0x7F;
  });
  return control * 50 <= static_cast<std::ptrdiff_t>(head.size());
}

Verdict undo_content_encoding(std::string_view header, std::uint64_t max_bytes, HttpPayload& out) {
  std::vector<std::string> layers;
  while (!header.empty()) {
    const std::size_t comma = header.find(',');
    const std::string name = lower_trimmed(header.substr(0, comma));
    header.remove_prefix(comma == std::string_view::npos ? header.size() : comma + 1);
    if (name == "gzip" || name == "x-gzip" || name == "deflate" || name == "br" || name == "zstd")
      layers.push_back(name);
    else if (!name.empty() && name != "identity")
      ++out.quirks;
    if (layers.size() > 4)
      return Verdict::drop(Reason::kPayloadContentEncoding, "more than four layers");
  }
  // Of what the archive stores, whatever the number of layers.
  const std::uint64_t limit =
      std::min<std::uint64_t>(max_bytes, 1000 * out.body.size() + (std::uint64_t{1} << 20));
  for (; !layers.empty(); layers.pop_back()) {
    auto unpacked = unpack(layers.back(), out.body, limit);
    if (!unpacked) {
      if (!looks_like_text(out.body))
        return Verdict::drop(Reason::kPayloadContentEncoding, layers.back());
      ++out.quirks;  // decoded by the crawler, label kept
      continue;
    }
    if (unpacked->over_limit)
      return Verdict::drop(Reason::kPayloadContentEncoding,
                           layers.back() + " output above the limit");
    out.truncated = out.truncated || !unpacked->complete;
    out.body = std::move(unpacked->bytes);
  }
  return Verdict::keep();
}

/// Splits the block; false when it begins with no status line.
bool split_response(std::string_view block, HttpPayload& out, std::string_view& body) {
  if (!block.starts_with("HTTP/") && !block.starts_with("ICY ")) return false;
  const std::size_t line = block.find('\n');
  std::string_view status = block.substr(0, line);
  const std::size_t space = status.find(' ');
  status.remove_prefix(space == std::string_view::npos ? status.size() : space);
  while (!status.empty() && status.front() == ' ') status.remove_prefix(1);
  for (std::size_t i = 0; i < 3 && i < status.size() && status[i] >= '0' && status[i] <= '9'; ++i) {
    out.status = out.status * 10 + (status[i] - '0');
  }
  if (line == std::string_view::npos) return true;
  std::size_t pos = line + 1;
  std::size_t header_end = pos;
  for (;;) {  // to the blank line
    const std::string_view rest = block.substr(pos);
    if (rest.starts_with("\r\n") || rest.starts_with("\n") || rest.empty() ||
        pos > kMaxHttpHeader) {
      header_end = pos;
      pos += rest.starts_with("\r\n") ? 2 : rest.starts_with("\n") ? 1 : 0;
      break;
    }
    const std::size_t next = rest.find('\n');
    pos = next == std::string_view::npos ? block.size() : pos + next + 1;
  }
  out.fields = parse_fields(block.substr(line + 1, header_end - line - 1), out.quirks);
  body = block.substr(pos);
  return true;
}

}  // namespace

Verdict read_http_payload(std::string_view block, std::uint64_t max_bytes, HttpPayload& out) {
  std::string_view body;
  if (!split_response(block, out, body))
    return Verdict::drop(Reason::kReadMime, "no HTTP response");
  if (const std::string* type = find_field(out.fields, "Content-Type")) out.content_type = *type;
  const std::string* transfer = find_field(out.fields, "Transfer-Encoding");
  const std::string* content = find_field(out.fields, "Content-Encoding");
  if (const std::string* length = find_field(out.fields, "Content-Length");
      length != nullptr && body.starts_with("\r\n") &&
      fmt::format("{}", body.size() - 2) == *length) {
    body.remove_prefix(2);  // one blank line too many between header and body
    ++out.quirks;
  }
  if (transfer != nullptr && lower_trimmed(*transfer).find("chunked") != std::string::npos) {
    Chunked chunked = remove_chunks(body);
    if (chunked.complete || !chunked.body.empty()) {
      out.truncated = !chunked.complete;
      out.body = std::move(chunked.body);
    } else if (chunked.began && body.size() < 16) {
      return Verdict::drop(Reason::kPayloadChunked, "no whole chunk");
    } else {
      out.body = body;
      ++out.quirks;
    }
  } else {
    out.body = body;
  }
  if (content != nullptr && !out.body.empty()) {
    if (Verdict verdict = undo_content_encoding(*content, max_bytes, out); !verdict.kept())
      return verdict;
  }
  if (out.body.empty()) return Verdict::drop(Reason::kPayloadEmpty);
  return Verdict::keep();
}

std::string media_type(std::string_view content_type) {
  return lower_trimmed(content_type.substr(0, content_type.find_first_of(";,")));
}

std::string sniff_media_type(std::string_view body) {
  static constexpr std::pair<std::string_view, const char*> kMagic[] = {
      {"%PDF-", "application/pdf"},
      {"\x89PNG\r\n\x1a\n", "image/png"},
      {"GIF87a", "image/gif"},
      {"GIF89a", "image/gif"},
      {"\xFF\xD8\xFF", "image/jpeg"},
      {"PK\x03\x04", "application/zip"},
      {"\x1f\x8b\x08", "application/gzip"},
      {"%!PS-Adobe-", "application/postscript"},
      {"wOFF", "font/woff"},
      {"wOF2", "font/woff2"},
      {"Rar!\x1a\x07", "application/x-rar-compressed"}};
  for (const auto& [magic, type] : kMagic) {
    if (body.starts_with(magic)) return type;
  }
  if (body.size() >= 12 && body.starts_with("RIFF") && body.substr(8, 4) == "WEBP")
    return "image/webp";
  std::string_view head = body.substr(0, 1024);
  if (head.starts_with("\xEF\xBB\xBF")) head.remove_prefix(3);
  while (!head.empty() && is_space(head.front())) head.remove_prefix(1);
  const std::string start = lower_trimmed(head.substr(0, 32));
  for (const char* tag : {"<!doctype html", "<html", "<head", "<body", "<script", "<title", "<div",
                          "<table", "<!--"}) {
    if (start.starts_with(tag)) return "text/html";
  }
  if (start.starts_with("<?xml")) {
    return body.substr(0, 1024).find("<html") != std::string_view::npos ? "application/xhtml+xml"
                                                                        : "text/xml";
  }
  return {};
}

}  // namespace sx
