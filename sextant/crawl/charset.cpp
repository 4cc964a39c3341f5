#include "sextant/crawl/charset.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "sextant/text/charset_detector.h"
#include "sextant/text/decoder.h"
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

/// One page's way through the choice.
class CharsetChoice {
 public:
  CharsetChoice(std::string_view bytes, const CharsetOptions& options, std::string_view host,
                DecodedPage& out)
      : bytes_(bytes), options_(options), out_(out) {
    detect_options_.extra = options.extra;
    const std::size_t dot = host.rfind('.');
    detect_options_.tld = dot == std::string_view::npos ? "" : host.substr(dot + 1);
  }

  Verdict run(std::string_view http_content_type, bool is_html) {
    const auto http_label = charset_parameter(http_content_type);
    if (http_label) out_.declared = *http_label;
    for (const std::string& source : options_.order) {
      if (const auto encoding = ask(source, http_label, is_html)) {
        out_.source = source;
        return decode_as(*encoding);
      }
    }
    if (is_binary(bytes_)) return Verdict::drop(Reason::kDecodeBinary);
    out_.source = is_ascii(bytes_) ? "ascii" : "utf8";
    return decode_as(kUtf8);
  }

 private:
  std::optional<std::string_view> ask(const std::string& source,
                                      const std::optional<std::string>& http_label, bool is_html) {
    if (source == "bom") {
      const auto mark = byte_order_mark(bytes_);
      if (!mark) return std::nullopt;
      if (options_.extra && mark->encoding == "UTF-16LE" &&
          bytes_.starts_with(std::string_view("\xFF\xFE\0\0", 4))) {
        bytes_.remove_prefix(4);
        return "UTF-32LE";
      }
      bytes_.remove_prefix(mark->bytes);
      return mark->encoding;
    }
    if (source == "http") return http_label ? encoding_for_label(*http_label) : std::nullopt;
    if (source == "meta") {
      const auto encoding = is_html ? prescan_meta(bytes_, kPrescanBytes) : std::nullopt;
      if (encoding && out_.declared.empty()) out_.declared = *encoding;
      return encoding;
    }
    if (source == "utf8")
      return !is_binary(bytes_) && is_valid_utf8(bytes_) ? std::optional(kUtf8) : std::nullopt;
    return detect();
  }

  std::optional<std::string_view> detect() {
    if (options_.extra && bytes_.starts_with(std::string_view("\0\0\xFE\xFF", 4))) {
      bytes_.remove_prefix(4);
      return "UTF-32BE";
    }
    const auto guess = detect_charset(bytes_, detect_options_);
    if (!guess || guess->encoding == kUtf8) return std::nullopt;  // plain UTF-8 is named so below
    const bool wide = guess->encoding.starts_with("UTF-");
    if (!wide && is_binary(bytes_)) return std::nullopt;
    return guess->encoding;
  }

  Verdict decode_as(std::string_view encoding) {
    out_.encoding = encoding;
    const bool wide = encoding.starts_with("UTF-16") || encoding.starts_with("UTF-32");
    if (!wide && is_binary(bytes_)) return Verdict::drop(Reason::kDecodeBinary);
    if (encoding == kUtf8 && is_valid_utf8(bytes_)) {
      out_.text = bytes_;
      return Verdict::keep();
    }
    DecodedText decoded = decode_bytes(bytes_, encoding);
    if (decoded.replaced == 0) return take(std::move(decoded));
    if (encoding != kUtf8 && !is_ascii(bytes_) && is_valid_utf8(bytes_)) {
      out_.encoding = kUtf8;
      out_.source = "utf8";
      out_.text = bytes_;
      return Verdict::keep();
    }
    const std::uint64_t invalid =
        encoding == kUtf8 ? census_utf8(bytes_).invalid_bytes : decoded.replaced;
    const bool few = invalid <= 3 || static_cast<double>(invalid) <=
                                         kMaxInvalidShare * static_cast<double>(bytes_.size());
    if (few && encoding != "replacement") return take(std::move(decoded));
    return decode_as_detected(encoding);
  }

  Verdict decode_as_detected(std::string_view declared) {
    const bool may_detect =
        std::find(options_.order.begin(), options_.order.end(), "detect") != options_.order.end();
    if (may_detect && out_.source != "detect") {
      DetectOptions options = detect_options_;
      options.legacy_only = true;
      if (const auto guess = detect_charset(bytes_, options)) {
        DecodedText decoded = decode_bytes(bytes_, guess->encoding);
        if (decoded.replaced == 0) {
          out_.encoding = guess->encoding;
          out_.source = "detect";
          return take(std::move(decoded));
        }
      }
    }
    return Verdict::drop(
        Reason::kDecodeFailed,
        declared == kUtf8
            ? fmt::format("{}: not valid", out_.declared.empty() ? "undeclared" : kUtf8)
            : std::string(declared));
  }

  Verdict take(DecodedText decoded) {
    out_.text = std::move(decoded.text);
    out_.replaced = decoded.replaced;
    return Verdict::keep();
  }

  std::string_view bytes_;
  const CharsetOptions& options_;
  DetectOptions detect_options_;
  DecodedPage& out_;
};

}  // namespace

Verdict decode_page(std::string_view bytes, std::string_view http_content_type, bool is_html,
                    const CharsetOptions& options, std::string_view host, DecodedPage& out) {
  return CharsetChoice(bytes, options, host, out).run(http_content_type, is_html);
}

}  // namespace sx
