#include "sextant/crawl/charset.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "sextant/text/encoding.h"
#include "sextant/text/utf8.h"

namespace sx {

namespace {

constexpr std::size_t kPrescanBytes = std::size_t{64} << 10;
constexpr double kMaxInvalidShare = 0.001;

bool is_binary(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, std::size_t{64} << 10);
  const auto control = std::count_if(head.begin(), head.end(), [](char raw) {
    const auto c = static_cast<unsigned char>(raw);
    return (c < 0x20 && !(c >= '\t' && c <= '\r') && c != 0x1B) || c == 0x7F;
  });
  return control * 20 > static_cast<std::ptrdiff_t>(head.size());
}

bool is_ascii(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

Verdict decode_utf8(std::string_view bytes, DecodedPage& out) {
  if (is_valid_utf8(bytes)) {
    out.text = bytes;
    return Verdict::keep();
  }
  const Utf8Census census = census_utf8(bytes);
  if (static_cast<double>(census.invalid_bytes) >
          kMaxInvalidShare * static_cast<double>(bytes.size()) &&
      census.invalid_bytes > 3) {
    return Verdict::drop(Reason::kDecodeFailed,
                         fmt::format("{}: not valid", out.declared.empty() ? "undeclared" : kUtf8));
  }
  out.text = repair_utf8(bytes, out.replaced);
  return Verdict::keep();
}

}  // namespace

Verdict decode_page(std::string_view bytes, std::string_view http_content_type, bool is_html,
                    DecodedPage& out) {
  std::optional<std::string_view> encoding;
  if (const auto mark = byte_order_mark(bytes)) {
    encoding = mark->encoding;
    out.source = "bom";
    bytes.remove_prefix(mark->bytes);
  }
  if (const auto label = charset_parameter(http_content_type)) {
    out.declared = *label;
    if (!encoding && (encoding = encoding_for_label(*label))) out.source = "http";
  }
  if (!encoding && is_html && (encoding = prescan_meta(bytes, kPrescanBytes))) {
    out.source = "meta";
    if (out.declared.empty()) out.declared = *encoding;
  }
  const bool wide = encoding && !is_ascii_superset(*encoding);
  if (!wide && is_binary(bytes)) return Verdict::drop(Reason::kDecodeBinary);
  if (!encoding) {
    out.source = is_ascii(bytes) ? "ascii" : "utf8";
    encoding = kUtf8;
  }
  out.encoding = *encoding;
  if (*encoding == kUtf8) return decode_utf8(bytes, out);
  if (*encoding == kWindows1252) {
    out.text = decode_windows_1252(bytes);
    return Verdict::keep();
  }
  if (!wide && is_ascii(bytes)) {
    out.text = bytes;
    return Verdict::keep();
  }
  return Verdict::drop(Reason::kDecodeFailed, out.encoding);
}

}  // namespace sx
