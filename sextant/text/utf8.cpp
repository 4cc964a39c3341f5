#include "sextant/text/utf8.h"

#include <simdjson.h>

namespace sx {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Step {
  std::size_t length;  // bytes consumed
  bool valid;
};

/// The sequence, or the longest prefix of one, that begins at bytes[i].
Step step_at(std::string_view bytes, std::size_t i) {
  const auto at = [&](std::size_t k) { return static_cast<unsigned char>(bytes[k]); };
  const unsigned char lead = at(i);
  if (lead < 0x80) return {1, true};
  std::size_t need = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    need = 1;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    need = 2;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    need = 3;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {1, false};
  }
  for (std::size_t k = 1; k <= need; ++k) {
    if (i + k >= bytes.size() || at(i + k) < low || at(i + k) > high) return {k, false};
    low = 0x80;
    high = 0xBF;
  }
  return {need + 1, true};
}

}  // namespace

bool is_valid_utf8(std::string_view bytes) {
  return simdjson::validate_utf8(bytes.data(), bytes.size());
}

Utf8Census census_utf8(std::string_view bytes) {
  Utf8Census census;
  for (std::size_t i = 0; i < bytes.size();) {
    const Step step = step_at(bytes, i);
    if (!step.valid) {
      census.invalid_bytes += step.length;
      ++census.replacements;
    } else if (step.length > 1) {
      ++census.multibyte;
    }
    i += step.length;
  }
  return census;
}

std::string repair_utf8(std::string_view bytes, std::uint64_t& replaced) {
  if (is_valid_utf8(bytes)) return std::string(bytes);
  std::string out;
  out.reserve(bytes.size() + 64);
  for (std::size_t i = 0; i < bytes.size();) {
    const Step step = step_at(bytes, i);
    if (step.valid) {
      out.append(bytes, i, step.length);
    } else {
      out += kReplacement;
      ++replaced;
    }
    i += step.length;
  }
  return out;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) c = 0xFFFD;
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

}  // namespace sx
