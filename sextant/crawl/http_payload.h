#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sextant/crawl/verdict.h"
#include "sextant/crawl/warc_reader.h"

namespace sx {

/// An HTTP response as an archive keeps it, its transfer and content encodings undone.
struct HttpPayload {
  int status = 0;
  HeaderFields fields;
  std::string content_type;  ///< of the header, as written
  std::string body;
  bool truncated = false;    ///< cut inside a chunk or a compressed stream
  std::uint64_t quirks = 0;  ///< false labels, line ends, a body that was decoded already ...
};

/// Reads `block` (status line, header, body), lenient about line ends and folding.
///
/// "Transfer-Encoding: chunked" may stand over a body that is decoded already: chunks are removed
/// only when they parse; a bad chunk behind good ones delivers what came before it, with
/// `truncated`. Content encodings gzip, x-gzip, deflate (zlib or raw), br and zstd, also stacked; a
/// label over plain text is passed over. Output is held under `max_bytes` and under 1,000 times the
/// input + 1 MiB. Verdicts: kReadMime when the block is no HTTP response; kPayloadChunked,
/// kPayloadContentEncoding, kPayloadEmpty.
Verdict read_http_payload(std::string_view block, std::uint64_t max_bytes, HttpPayload& out);

/// Media type in lower case without parameters ("text/html"), empty when there is none.
std::string media_type(std::string_view content_type);

/// What the first bytes say: "application/pdf", "image/png", "text/html" ...; empty when they say
/// nothing. Source:  WHATWG MIME Sniffing Standard, the patterns of sections 6 and 7.1 that occur
/// on the web.
std::string sniff_media_type(std::string_view body);

}  // namespace sx
