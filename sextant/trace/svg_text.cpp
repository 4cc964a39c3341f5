#include "sextant/trace/svg.h"

#include "sextant/trace/svg_canvas.h"

namespace sx {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Length of the valid UTF-8 sequence at the front, 0 when there is none (Unicode 15, table 3-7).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                             : lead >= 0xE0 && lead <= 0xEF ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  const unsigned char second = byte(1);
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (second < low || second > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

void append_ascii(std::string& out, char c) {
  switch (c) {
    case '&': out += "&amp;"; return;
    case '<': out += "&lt;"; return;
    case '>': out += "&gt;"; return;
    case '"': out += "&quot;"; return;
    case '\'': out += "&#39;"; return;
    default: break;
  }
  const bool control =
      (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n') || c == 0x7f;
  if (control) {
    out += kReplacement;
  } else {
    out += c;
  }
}

/// U+0080..U+009F, and the marks that turn the direction of the text around them (U+202A..2E,
/// U+2066..69).
bool is_unsafe(std::string_view sequence) {
  if (sequence.size() == 2) {
    return sequence[0] == '\xC2' && static_cast<unsigned char>(sequence[1]) < 0xA0;
  }
  if (sequence.size() != 3 || sequence[0] != '\xE2') return false;
  const auto second = static_cast<unsigned char>(sequence[1]);
  const auto third = static_cast<unsigned char>(sequence[2]);
  return (second == 0x80 && third >= 0xAA && third <= 0xAE) ||
         (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

/// Width in thousandths of the font size, generous for common sans-serif fonts.
int glyph_width(std::string_view sequence) {
  if (sequence.size() == 1) {
    const char c = sequence[0];
    if (std::string_view("il.,:;'|!j").find(c) != std::string_view::npos) return 300;
    if (std::string_view(" ()[]ftr/-\"").find(c) != std::string_view::npos) return 380;
    if (std::string_view("mwMW@%").find(c) != std::string_view::npos) return 960;
    if (c >= 'A' && c <= 'Z') return 730;
    return 620;
  }
  if (sequence == "\u2009") return 220;
  if (sequence == "\u00a0") return 320;
  if (sequence.size() == 2) return 700;
  const auto lead = static_cast<unsigned char>(sequence[0]);
  // From U+2E80 on mostly full-width scripts.
  return lead >= 0xE3 || (lead == 0xE2 && static_cast<unsigned char>(sequence[1]) >= 0xBA) ? 1040
                                                                                           : 720;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 1) {
      append_ascii(out, text[0]);
    } else if (length == 0 || is_unsafe(text.substr(0, length))) {
      out += kReplacement;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string cut_text(std::string_view text, std::size_t max_chars) {
  std::size_t chars = 0, end = 0, last_start = 0;
  while (end < text.size()) {
    if (chars == max_chars) {
      return std::string(text.substr(0, last_start)) + "\u2026";
    }
    const std::size_t length = sequence_length(text.substr(end));
    last_start = end;
    end += length == 0 ? 1 : length;
    ++chars;
  }
  return std::string(text);
}

double text_width(std::string_view text, double px) {
  double width = 0;
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const std::size_t taken = length == 0 ? 1 : length;
    width += glyph_width(text.substr(0, taken));
    text.remove_prefix(taken);
  }
  return width / 1000 * px;
}

std::string fit_text(std::string_view text, double max_width, double px) {
  if (text_width(text, px) <= max_width) return std::string(text);
  std::size_t chars = text.size();
  std::string cut;
  while (chars > 0) {
    cut = cut_text(text, chars);
    if (text_width(cut, px) <= max_width) return cut;
    --chars;
  }
  return cut;
}

}  // namespace sx
