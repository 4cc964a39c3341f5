#include "sextant/crawl/charset.h"

#include <gtest/gtest.h>

namespace sx {
namespace {

struct Decoded {
  DecodedPage page;
  Verdict verdict;
  Decoded(std::string_view bytes, std::string_view http, bool html = true)
      : verdict(decode_page(bytes, http, html, page)) {}
};

TEST(Charset, OrderIsBomHttpMeta) {
  const std::string meta = "<meta charset=windows-1252>";
  Decoded bom("\xEF\xBB\xBF" + meta + "\xC3\xA9", "text/html; charset=sjis");
  EXPECT_EQ(bom.page.source, "bom");
  EXPECT_EQ(bom.page.text, meta + "\u00E9");
  EXPECT_EQ(bom.page.declared, "sjis");
  Decoded http(meta + "\xC3\xA9", "text/html; charset=UTF8");
  EXPECT_EQ(http.page.source, "http");
  EXPECT_EQ(http.page.encoding, "UTF-8");
  Decoded by_meta(meta + "\xE9", "text/html");
  EXPECT_EQ(by_meta.page.source, "meta");
  EXPECT_EQ(by_meta.page.text, meta + "\u00E9");
  Decoded unknown(meta + "\xE9", "text/html; charset=nonsense");
  EXPECT_EQ(unknown.page.source, "meta");
  EXPECT_EQ(unknown.page.declared, "nonsense");
  Decoded plain(meta + "\xC3\xA9", "text/plain", false);
  EXPECT_EQ(plain.page.source, "utf8");
}

TEST(Charset, NothingIsGuessed) {
  EXPECT_EQ(Decoded("abc", "").page.source, "ascii");
  EXPECT_EQ(Decoded("\xC3\xA9", "").page.source, "utf8");
  EXPECT_EQ(Decoded("caf\xE9 caf\xE9 caf\xE9 caf\xE9", "").verdict.reason, Reason::kDecodeFailed);
  const Decoded sjis("\x83\x65\x83\x58\x83\x67", "text/html; charset=shift_jis");
  EXPECT_EQ(sjis.verdict.reason, Reason::kDecodeFailed);
  EXPECT_EQ(sjis.verdict.value, "Shift_JIS");
  EXPECT_TRUE(Decoded("ascii only", "text/html; charset=shift_jis").verdict.kept());
  EXPECT_EQ(Decoded("\xFF\xFEh\0i\0", "").verdict.value, "UTF-16LE");
  EXPECT_EQ(Decoded("x", "text/html; charset=iso-2022-kr").verdict.value, "replacement");
}

TEST(Charset, FewInvalidBytesAreReplacedManyDropThePage) {
  const std::string good(10000, 'x');
  const Decoded few(good + "\xFF" + good, "text/html; charset=utf-8");
  EXPECT_TRUE(few.verdict.kept());
  EXPECT_EQ(few.page.replaced, 1u);
  EXPECT_EQ(few.page.text, good + "\xEF\xBF\xBD" + good);
  const Decoded many(std::string(100, '\xE9') + good, "text/html; charset=utf-8");
  EXPECT_EQ(many.verdict.reason, Reason::kDecodeFailed);
}

TEST(Charset, BinaryIsNoText) {
  EXPECT_EQ(Decoded(std::string("a\0b\1c\2", 6), "text/html; charset=utf-8").verdict.reason,
            Reason::kDecodeBinary);
  EXPECT_TRUE(Decoded("a\tb\r\n", "").verdict.kept());
}

}  // namespace
}  // namespace sx
