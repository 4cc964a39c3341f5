// Any bytes as an HTTP response: chunks and content encodings are undone within the limits, then
// decoded to valid UTF-8.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "sextant/crawl/charset.h"
#include "sextant/crawl/http_payload.h"
#include "sextant/text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{4} << 20;
  sx::HttpPayload payload;
  const sx::Verdict verdict =
      sx::read_http_payload({reinterpret_cast<const char*>(data), size}, kMaxBytes, payload);
  if (!verdict.kept()) return 0;
  if (payload.body.empty() || payload.body.size() > kMaxBytes) std::abort();
  sx::sniff_media_type(payload.body);
  sx::DecodedPage page;
  if (sx::decode_page(payload.body, payload.content_type, true, {}, "", page).kept() &&
      !sx::is_valid_utf8(page.text)) {
    std::abort();
  }
  return 0;
}
