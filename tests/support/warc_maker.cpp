#include "tests/support/warc_maker.h"

#include <zlib.h>

#include <fmt/format.h>

#include "sextant/base/check.h"

namespace sx {

std::string WarcMaker::record(int n, std::string_view type, std::string_view url,
                              std::string_view content_type, std::string_view block,
                              const Fields& extra) {
  std::string out = fmt::format(
      "WARC/1.1\r\nWARC-Type: {}\r\nWARC-Record-ID: <urn:test:{}>\r\nWARC-Date: "
      "2026-11-30T00:00:00Z\r\n",
      type, n);
  if (!url.empty()) out += fmt::format("WARC-Target-URI: {}\r\n", url);
  if (!content_type.empty()) out += fmt::format("Content-Type: {}\r\n", content_type);
  for (const auto& [name, value] : extra) out += fmt::format("{}: {}\r\n", name, value);
  out += fmt::format("Content-Length: {}\r\n\r\n", block.size());
  out += block;
  out += "\r\n\r\n";
  return out;
}

std::string WarcMaker::response(int n, std::string_view url, std::string_view http_fields,
                                std::string_view body, int status) {
  std::string block = fmt::format("HTTP/1.1 {} X\r\n{}\r\n", status, http_fields);
  block += body;
  return record(n, "response", url, "application/http; msgtype=response", block);
}

std::string WarcMaker::gzip(std::string_view bytes) {
  z_stream z{};
  SX_CHECK(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib cannot start");
  std::string out(deflateBound(&z, static_cast<uLong>(bytes.size())), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  SX_CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END, "zlib did not finish");
  out.resize(out.size() - z.avail_out);
  deflateEnd(&z);
  return out;
}

}  // namespace sx
