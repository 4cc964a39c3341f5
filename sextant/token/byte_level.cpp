#include <array>

#include "sextant/text/utf8.h"
#include "sextant/token/char_scan.h"
#include "sextant/token/hf_json.h"

namespace sx {
namespace {

// Code point of each byte: printable Latin-1 as it is, the other 68 from U+0100 on.
constexpr std::array<std::uint16_t, 256> make_byte_points() {
  std::array<std::uint16_t, 256> points{};
  std::uint16_t next = 0x100;
  for (std::uint16_t b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    points[b] = printable ? b : next++;
  }
  return points;
}
constexpr std::array<std::uint16_t, 256> kBytePoints = make_byte_points();

constexpr std::array<std::int16_t, 0x144> make_point_bytes() {
  std::array<std::int16_t, 0x144> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (std::int16_t b = 0; b < 256; ++b) bytes[kBytePoints[static_cast<std::size_t>(b)]] = b;
  return bytes;
}
constexpr std::array<std::int16_t, 0x144> kPointBytes = make_point_bytes();

}  // namespace

std::string to_byte_level(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char c : bytes) append_utf8(text, kBytePoints[static_cast<unsigned char>(c)]);
  return text;
}

std::optional<std::string> from_byte_level(std::string_view text) {
  std::string bytes;
  for (std::size_t pos = 0; pos < text.size();) {
    const ScannedChar c = scan_char(text, pos);
    if (!c.valid || c.code_point >= kPointBytes.size() || kPointBytes[c.code_point] < 0)
      return std::nullopt;
    bytes.push_back(static_cast<char>(kPointBytes[c.code_point]));
    pos += c.size;
  }
  return bytes;
}

}  // namespace sx
