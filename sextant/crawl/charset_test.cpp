#include "sextant/crawl/charset.h"

#include <gtest/gtest.h>

namespace sx {
namespace {

struct Decoded {
  DecodedPage page;
  Verdict verdict;
  Decoded(std::string_view bytes, std::string_view http, bool html = true,
          const CharsetOptions& options = {}, std::string_view host = "a.test")
      : verdict(decode_page(bytes, http, html, options, host, page)) {}
};

const std::string kRussianKoi8 =
    "\xF7 \xDE\xC1\xDD\xC1\xC8 \xC0\xC7\xC1 \xD6\xC9\xCC \xC2\xD9 \xC3\xC9\xD4\xD2\xD5\xD3, "
    "\xCE\xCF \xC6\xC1\xCC\xD8\xDB\xC9\xD7\xD9\xCA \xDC\xCB\xDA\xC5\xCD\xD0\xCC\xD1\xD2.";
const std::string kRussian = "В чащах юга жил бы цитрус, но фальшивый экземпляр.";

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

TEST(Charset, DeclaredLegacyEncodingsAreDecoded) {
  const Decoded sjis("\x83\x65\x83\x58\x83\x67", "text/html; charset=shift_jis");
  EXPECT_EQ(sjis.page.text, "テスト");
  EXPECT_EQ(sjis.page.encoding, "Shift_JIS");
  EXPECT_EQ(Decoded("\xC4\xE3\xBA\xC3", "text/html; charset=gb2312").page.text, "你好");
  EXPECT_EQ(Decoded("\x93quoted\x94", "text/html; charset=iso-8859-1").page.text, "“quoted”");
  EXPECT_EQ(Decoded(std::string_view("\xFF\xFEh\0\xE9\0", 6), "").page.text, "h\u00E9");
  EXPECT_EQ(Decoded("ascii only", "text/html; charset=shift_jis").page.text, "ascii only");
}

TEST(Charset, UndeclaredTextIsDetected) {
  EXPECT_EQ(Decoded("abc", "").page.source, "ascii");
  EXPECT_EQ(Decoded("\xC3\xA9", "").page.source, "utf8");
  const Decoded koi8(kRussianKoi8, "");
  EXPECT_EQ(koi8.page.source, "detect");
  EXPECT_EQ(koi8.page.encoding, "KOI8-R");
  EXPECT_EQ(koi8.page.text, kRussian);
  EXPECT_EQ(Decoded("un caf\xE9 au lait, s'il vous pla\xEEt", "").page.encoding, "windows-1252");
}

TEST(Charset, WrongDeclarationsAreFoundOut) {
  const Decoded utf8(kRussian, "text/html; charset=shift_jis");
  EXPECT_EQ(utf8.page.encoding, "UTF-8");
  EXPECT_EQ(utf8.page.source, "utf8");
  EXPECT_EQ(utf8.page.text, kRussian);
  const Decoded koi8(kRussianKoi8, "text/html; charset=utf-8");
  EXPECT_EQ(koi8.page.encoding, "KOI8-R");
  EXPECT_EQ(koi8.page.source, "detect");
  EXPECT_EQ(koi8.page.replaced, 0u);
  const Decoded korean("x", "text/html; charset=iso-2022-kr");
  EXPECT_EQ(korean.verdict.reason, Reason::kDecodeFailed);
  EXPECT_EQ(korean.verdict.value, "replacement");
}

TEST(Charset, OrderCanBeChosen) {
  CharsetOptions options;
  options.order = {"utf8", "detect"};
  const Decoded guessed(kRussianKoi8, "text/html; charset=utf-8", true, options);
  EXPECT_EQ(guessed.page.source, "detect");
  EXPECT_EQ(Decoded(kRussian, "text/html; charset=koi8-r", true, options).page.text, kRussian);
  options.order = {"bom", "http", "meta"};
  EXPECT_EQ(Decoded(kRussianKoi8, "", true, options).verdict.value, "undeclared: not valid");
}

TEST(Charset, ExtraEncodingsOnlyWhenAskedFor) {
  const std::string_view wide("\xFF\xFE\0\0A\0\0\0\xE9\0\0\0", 12);
  CharsetOptions extra;
  extra.extra = true;
  EXPECT_EQ(Decoded(wide, "", true, extra).page.text, "A\u00E9");
  EXPECT_EQ(Decoded(wide, "", true, extra).page.encoding, "UTF-32LE");
  EXPECT_EQ(Decoded(wide, "").page.encoding, "UTF-16LE");
}

TEST(Charset, FewInvalidBytesAreReplacedManyAreNot) {
  const std::string good(10000, 'x');
  const Decoded few(good + "\xFF" + good, "text/html; charset=utf-8");
  EXPECT_TRUE(few.verdict.kept());
  EXPECT_EQ(few.page.replaced, 1u);
  EXPECT_EQ(few.page.text, good + "\xEF\xBF\xBD" + good);
  CharsetOptions declared_only;
  declared_only.order = {"bom", "http", "meta"};
  const Decoded many(std::string(100, '\xE9') + good, "text/html; charset=utf-8", true,
                     declared_only);
  EXPECT_EQ(many.verdict.reason, Reason::kDecodeFailed);
}

TEST(Charset, BinaryIsNoText) {
  EXPECT_EQ(Decoded(std::string("a\0b\1c\2", 6), "text/html; charset=utf-8").verdict.reason,
            Reason::kDecodeBinary);
  EXPECT_EQ(Decoded(std::string("\x01\x02\x83\x84\x05\x06\x87", 7), "").verdict.reason,
            Reason::kDecodeBinary);
  EXPECT_TRUE(Decoded("a\tb\r\n", "").verdict.kept());
}

}  // namespace
}  // namespace sx
