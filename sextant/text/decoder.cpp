#include "sextant/text/decoder.h"

#include <iconv.h>
#include <lexbor/encoding/encoding.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "sextant/base/check.h"
#include "sextant/text/ascii.h"
#include "sextant/text/encoding.h"
#include "sextant/text/utf8.h"

namespace sx {

namespace {

constexpr char32_t kDecodeError = 0x110000;  // no code point: what lexbor puts in for an error
constexpr std::array<std::string_view, 6> kExtra = {"UTF-32LE", "UTF-32BE", "IBM855",
                                                    "EUC-TW",   "Johab",    "ISO-2022-KR"};

const lxb_encoding_data_t* lexbor_encoding(std::string_view name) {
  std::string folded(name);
  std::transform(folded.begin(), folded.end(), folded.begin(), to_lower);
  return lxb_encoding_data_by_name(reinterpret_cast<const lxb_char_t*>(folded.data()),
                                   folded.size());
}

void append_counted(DecodedText& out, char32_t c) {
  if (c >= kDecodeError) {
    ++out.replaced;
    c = 0xFFFD;
  }
  append_utf8(out.text, c);
}

bool is_single_byte(lxb_encoding_t e) {
  switch (e) {
    case LXB_ENCODING_BIG5:
    case LXB_ENCODING_EUC_JP:
    case LXB_ENCODING_EUC_KR:
    case LXB_ENCODING_GBK:
    case LXB_ENCODING_GB18030:
    case LXB_ENCODING_ISO_2022_JP:
    case LXB_ENCODING_SHIFT_JIS:
    case LXB_ENCODING_UTF_16BE:
    case LXB_ENCODING_UTF_16LE:
    case LXB_ENCODING_UTF_8: return false;
    default: return true;
  }
}

/// Runs lexbor's decoder over `bytes`; each code point, or kDecodeError, goes to `take`.
template <class Take>
void run_lexbor(const lxb_encoding_data_t* data, std::string_view bytes, Take take) {
  std::array<lxb_codepoint_t, 2048> buffer;
  const lxb_codepoint_t error = kDecodeError;
  lxb_encoding_decode_t context{};
  lxb_encoding_decode_init(&context, data, buffer.data(), buffer.size());
  lxb_encoding_decode_replace_set(&context, &error, 1);
  const auto* pos = reinterpret_cast<const lxb_char_t*>(bytes.data());
  const lxb_char_t* end = pos + bytes.size();
  const auto flush = [&] {
    const std::size_t used = lxb_encoding_decode_buf_used(&context);
    for (std::size_t i = 0; i < used; ++i) take(static_cast<char32_t>(buffer[i]));
    lxb_encoding_decode_buf_used_set(&context, 0);
  };
  for (;;) {
    const lxb_status_t status = data->decode(&context, &pos, end);
    flush();
    if (status != LXB_STATUS_SMALL_BUFFER) break;
  }
  lxb_encoding_decode_finish(&context);
  flush();
}

DecodedText decode_single_byte(const lxb_encoding_data_t* data, std::string_view bytes) {
  std::array<std::string, 128> high;
  std::array<bool, 128> bad{};
  for (std::size_t i = 0; i < high.size(); ++i) {
    const char byte = static_cast<char>(0x80 + i);
    run_lexbor(data, {&byte, 1}, [&](char32_t c) {
      bad[i] = c >= kDecodeError;
      append_utf8(high[i], c);
    });
  }
  DecodedText out;
  out.text.reserve(bytes.size() + bytes.size() / 4);
  for (const char raw : bytes) {
    const auto byte = static_cast<unsigned char>(raw);
    if (byte < 0x80) {
      out.text += raw;
    } else {
      out.text += high[byte - 0x80];
      out.replaced += bad[byte - 0x80] ? 1 : 0;
    }
  }
  return out;
}

DecodedText decode_utf32(std::string_view bytes, bool big_endian) {
  DecodedText out;
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    if (bytes.size() - i < 4) {
      append_counted(out, kDecodeError);
      break;
    }
    char32_t c = 0;
    for (std::size_t k = 0; k < 4; ++k)
      c |= static_cast<char32_t>(static_cast<unsigned char>(bytes[i + k]))
           << 8 * (big_endian ? 3 - k : k);
    append_counted(out, c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF) ? kDecodeError : c);
  }
  return out;
}

DecodedText decode_by_iconv(std::string_view bytes, const std::string& encoding) {
  const iconv_t state = iconv_open("UTF-8", encoding.c_str());
  SX_CHECK(state != reinterpret_cast<iconv_t>(-1), "the C library does not know {}", encoding);
  DecodedText out;
  std::array<char, 4096> buffer;
  std::string input(bytes);
  char* in = input.data();
  std::size_t left = input.size();
  bool more = true;
  while (more) {
    char* to = buffer.data();
    std::size_t room = buffer.size();
    const std::size_t done = left > 0 ? iconv(state, &in, &left, &to, &room)
                                      : iconv(state, nullptr, nullptr, &to, &room);
    const int cause = errno;
    more = left > 0;
    out.text.append(buffer.data(), buffer.size() - room);
    if (done != static_cast<std::size_t>(-1) || cause == E2BIG) continue;
    append_counted(out, kDecodeError);
    if (cause == EINVAL) {  // the bytes end inside a character
      left = 0;
    } else {
      ++in;
      --left;
    }
    more = left > 0;
  }
  iconv_close(state);
  return out;
}

}  // namespace

bool is_extra_encoding(std::string_view encoding) {
  return std::find(kExtra.begin(), kExtra.end(), encoding) != kExtra.end();
}

bool can_decode(std::string_view encoding) {
  return is_extra_encoding(encoding) || encoding_for_label(encoding) == encoding;
}

DecodedText decode_bytes(std::string_view bytes, std::string_view encoding) {
  SX_CHECK(can_decode(encoding), "no encoding has the name {}", encoding);
  if (encoding == "UTF-32LE" || encoding == "UTF-32BE")
    return decode_utf32(bytes, encoding == "UTF-32BE");
  if (is_extra_encoding(encoding)) return decode_by_iconv(bytes, std::string(encoding));
  DecodedText out;
  if (encoding == kUtf8) {
    out.text = repair_utf8(bytes, out.replaced);
    return out;
  }
  if (encoding == "replacement") {
    if (!bytes.empty()) append_counted(out, kDecodeError);
    return out;
  }
  const lxb_encoding_data_t* data = lexbor_encoding(encoding);
  if (is_single_byte(data->encoding)) return decode_single_byte(data, bytes);
  out.text.reserve(bytes.size() + bytes.size() / 2);
  run_lexbor(data, bytes, [&](char32_t c) { append_counted(out, c); });
  return out;
}

}  // namespace sx
