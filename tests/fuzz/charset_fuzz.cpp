// Any bytes as a page of unknown encoding: every decoder gives valid UTF-8, and what detection
// names can be decoded.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sextant/crawl/charset.h"
#include "sextant/text/charset_detector.h"
#include "sextant/text/decoder.h"
#include "sextant/text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  sx::DetectOptions options;
  options.extra = true;
  if (const auto guess = sx::detect_charset(bytes, options)) {
    if (!sx::can_decode(guess->encoding)) std::abort();
  }
  for (const char* encoding :
       {"UTF-8", "UTF-16LE", "UTF-16BE", "gb18030", "Big5", "EUC-JP", "ISO-2022-JP", "Shift_JIS",
        "EUC-KR", "windows-1252", "x-user-defined", "replacement", "UTF-32LE", "UTF-32BE", "EUC-TW",
        "Johab", "ISO-2022-KR", "IBM855"}) {
    if (!sx::is_valid_utf8(sx::decode_bytes(bytes, encoding).text)) std::abort();
  }
  sx::DecodedPage page;
  const sx::Verdict verdict = sx::decode_page(bytes, "text/html", true, {}, "a.test", page);
  if (verdict.kept() && !sx::is_valid_utf8(page.text)) std::abort();
  return 0;
}
