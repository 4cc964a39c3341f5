#include "sextant/crawl/http_payload.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "tests/support/warc_maker.h"

namespace sx {
namespace {

struct Read {
  HttpPayload payload;
  Verdict verdict;
  explicit Read(const std::string& block, std::uint64_t max_bytes = std::uint64_t{1} << 24)
      : verdict(read_http_payload(block, max_bytes, payload)) {}
};

std::string deflated(const std::string& text, int window_bits) {
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, text.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(out.size() - z.avail_out);
  deflateEnd(&z);
  return out;
}

TEST(HttpPayload, StatusLineAndHeaders) {
  const Read a("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=x\r\nX: a\r\n  b\r\n\r\nbody");
  EXPECT_TRUE(a.verdict.kept());
  EXPECT_EQ(a.payload.status, 200);
  EXPECT_EQ(a.payload.content_type, "text/html; charset=x");
  EXPECT_EQ(*find_field(a.payload.fields, "x"), "a b");
  EXPECT_EQ(a.payload.body, "body");
  EXPECT_EQ(a.payload.quirks, 0u);
  const Read lf("HTTP/1.0 404\nA: b\n\nbody");
  EXPECT_EQ(lf.payload.status, 404);
  EXPECT_EQ(lf.payload.body, "body");
  EXPECT_EQ(Read("HTTP/2 200\r\n\r\nx").payload.status, 200);
  EXPECT_EQ(Read("GET / HTTP/1.1\r\n\r\n").verdict.reason, Reason::kReadMime);
  EXPECT_EQ(Read("HTTP/1.1 200 OK\r\n\r\n").verdict.reason, Reason::kPayloadEmpty);
  EXPECT_EQ(Read("HTTP/1.1 200 OK").verdict.reason, Reason::kPayloadEmpty);
  EXPECT_EQ(Read("").verdict.reason, Reason::kReadMime);
  const Read blank("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\r\nbody");
  EXPECT_EQ(blank.payload.body, "body");
  EXPECT_GT(blank.payload.quirks, 0u);
}

TEST(HttpPayload, Chunked) {
  const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  struct Case {
    const char* body;
    const char* want;
    bool truncated;
  };
  const Case cases[] = {
      {"4\r\nabcd\r\n3\r\nefg\r\n0\r\n\r\n", "abcdefg", false},
      {"A\r\n0123456789\r\n0\r\n", "0123456789", false},
      {"a;x=\"y\"\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n", "0123456789", false},
      {"0004 \r\nabcd\r\n0\r\n\r\n", "abcd", false},
      {"4\nabcd\n0\n\n", "abcd", false},
      {"4\r\nabcd\r\nzz\r\nxx", "abcd", true},     // a bad chunk behind a good one
      {"4\r\nabcd\r\n9\r\nefg", "abcdefg", true},  // cut inside a chunk
      {"9\r\nabc", "abc", true},                   // cut inside the first chunk
      {"<p>decoded already</p>", "<p>decoded already</p>", false},
      {"face the facts\r\n", "face the facts\r\n", false},
      {"123456789\r\nx", "123456789\r\nx", false},  // nine digits are no size
  };
  for (const Case& c : cases) {
    const Read read(head + c.body);
    EXPECT_TRUE(read.verdict.kept()) << c.body;
    EXPECT_EQ(read.payload.body, c.want) << c.body;
    EXPECT_EQ(read.payload.truncated, c.truncated) << c.body;
  }
  EXPECT_EQ(Read(head + "5\r\n").verdict.reason, Reason::kPayloadChunked);
  EXPECT_EQ(Read(head + "0\r\n\r\n").verdict.reason, Reason::kPayloadEmpty);
}

TEST(HttpPayload, ContentEncodings) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "line " + std::to_string(i) + "\n";
  std::string zstd(ZSTD_compressBound(text.size()), '\0');
  zstd.resize(ZSTD_compress(zstd.data(), zstd.size(), text.data(), text.size(), 3));
  // "hello" by the brotli reference encoder: an uncompressed meta-block, then an empty last one.
  const std::string brotli("\x0b\x02\x80hello\x03", 9);
  const std::pair<std::string, std::string> cases[] = {
      {"gzip", WarcMaker::gzip(text)},
      {"x-gzip", WarcMaker::gzip(text)},
      {" GZIP ", WarcMaker::gzip(text)},
      {"deflate", deflated(text, 15)},
      {"deflate", deflated(text, -15)},
      {"zstd", zstd},
      {"gzip, gzip", WarcMaker::gzip(WarcMaker::gzip(text))},
      {"deflate, gzip", WarcMaker::gzip(deflated(text, 15))},
      {"identity", text},
      {"gzip", text},  // decoded by the crawler, label kept
      {"br", text},
      {"deflate", text},
      {"none", text},
  };
  for (const auto& [label, body] : cases) {
    const Read read("HTTP/1.1 200 OK\r\nContent-Encoding: " + label + "\r\n\r\n" + body);
    EXPECT_TRUE(read.verdict.kept()) << label;
    EXPECT_EQ(read.payload.body, text) << label;
    EXPECT_FALSE(read.payload.truncated) << label;
  }
  EXPECT_EQ(Read("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n" + brotli).payload.body, "hello");
  // The renamed header of Common Crawl is no encoding.
  EXPECT_EQ(Read("HTTP/1.1 200 OK\r\nX-Crawler-Content-Encoding: gzip\r\n\r\nplain").payload.body,
            "plain");
}

TEST(HttpPayload, CutAndFalseCompression) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += std::to_string(i * 7919) + " ";
  const std::string packed = WarcMaker::gzip(text);
  const Read cut("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" +
                 packed.substr(0, packed.size() / 2));
  EXPECT_TRUE(cut.verdict.kept());
  EXPECT_TRUE(cut.payload.truncated);
  EXPECT_TRUE(text.starts_with(cut.payload.body));
  EXPECT_GT(cut.payload.body.size(), text.size() / 4);
  const Read noise("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" +
                   std::string("\x01\x02\x03\x04\x05\x06", 6));
  EXPECT_EQ(noise.verdict.reason, Reason::kPayloadContentEncoding);
}

TEST(HttpPayload, BombsAreDropped) {
  const std::string bomb = WarcMaker::gzip(std::string(std::size_t{3} << 20, '\0'));
  const Read large("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + bomb,
                   std::uint64_t{1} << 20);
  EXPECT_EQ(large.verdict.reason, Reason::kPayloadContentEncoding);
  const Read twice("HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\n\r\n" +
                       WarcMaker::gzip(WarcMaker::gzip(std::string(std::size_t{4} << 20, '\0'))),
                   std::uint64_t{1} << 30);
  EXPECT_EQ(twice.verdict.reason, Reason::kPayloadContentEncoding);
}

TEST(HttpPayload, MediaTypes) {
  EXPECT_EQ(media_type(" Text/HTML ; charset=x"), "text/html");
  EXPECT_EQ(media_type(""), "");
  EXPECT_EQ(sniff_media_type("%PDF-1.4"), "application/pdf");
  EXPECT_EQ(sniff_media_type("\xEF\xBB\xBF \n<!DOCTYPE HTML>"), "text/html");
  EXPECT_EQ(sniff_media_type("<?xml version='1.0'?><html xmlns='x'>"), "application/xhtml+xml");
  EXPECT_EQ(sniff_media_type("<?xml version='1.0'?><rss>"), "text/xml");
  EXPECT_EQ(sniff_media_type("just text"), "");
}

}  // namespace
}  // namespace sx
