// The decoders against the standard's index tables, and the detector against files of known
// encoding (shared test data).
#include <gtest/gtest.h>

#include <map>

#include "sextant/base/fs.h"
#include "sextant/text/charset_detector.h"
#include "sextant/text/decoder.h"
#include "sextant/text/encoding.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

TEST(CharsetData, DecodersGiveTheStandardsTables) {
  const std::pair<const char*, const char*> tables[] = {
      {"big5", "Big5"},          {"euc_kr", "EUC-KR"},  {"gb18030", "gb18030"},
      {"jis0208", "EUC-JP"},     {"jis0212", "EUC-JP"}, {"iso_2022_jp", "ISO-2022-JP"},
      {"shift_jis", "Shift_JIS"}};
  for (const auto& [name, encoding] : tables) {
    const std::string folder = "charset/encoding_rs/" + std::string(name);
    const std::string in = read_file(test_data(folder + "_in.txt")).value();
    const std::string want = read_file(test_data(folder + "_in_ref.txt")).value();
    const std::string got = decode_bytes(in, encoding).text;
    std::size_t same = 0;
    while (same < got.size() && same < want.size() && got[same] == want[same]) ++same;
    EXPECT_TRUE(got == want) << name << " differs at byte " << same << " of " << want.size();
  }
}

/// Folder name -> encoding whose text is the truth.
std::string truth_of(const std::string& folder) {
  static const std::map<std::string, std::string> kNames = {{"CP932", "Shift_JIS"},
                                                            {"CP949", "EUC-KR"},
                                                            {"GB2312", "gb18030"},
                                                            {"SHIFT_JIS", "Shift_JIS"},
                                                            {"MacCyrillic", "x-mac-cyrillic"},
                                                            {"MacRoman", "macintosh"},
                                                            {"TIS-620", "windows-874"},
                                                            {"ascii", "UTF-8"},
                                                            {"utf-8-sig", "UTF-8"},
                                                            {"iso-2022-kr", "ISO-2022-KR"},
                                                            {"UTF-16", "UTF-16LE"},
                                                            {"UTF-32", "UTF-32LE"},
                                                            {"EUC-TW", "EUC-TW"},
                                                            {"Johab", "Johab"},
                                                            {"IBM855", "IBM855"},
                                                            {"UTF-32BE", "UTF-32BE"},
                                                            {"UTF-32LE", "UTF-32LE"}};
  const auto found = kNames.find(folder);
  if (found != kNames.end()) return found->second;
  std::string label = folder;
  if (label.starts_with("iso-8859-") || label.starts_with("windows-")) {
    const std::size_t dash = label.find('-', label.find('-', label[0] == 'i' ? 4 : 0) + 1);
    label = label.substr(0, dash);
  }
  const auto encoding = encoding_for_label(label);
  return encoding ? std::string(*encoding) : "";
}

TEST(CharsetData, DetectionFindsAtLeast97Percent) {
  DetectOptions options;
  options.extra = true;
  std::size_t files = 0;
  std::vector<std::string> missed;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(test_data("charset/chardet"))) {
    if (!entry.is_regular_file()) continue;
    ++files;
    const std::string bytes = read_file(entry.path()).value();
    const std::string folder = entry.path().parent_path().filename().string();
    std::string truth = truth_of(folder);
    ASSERT_NE(truth, "") << folder;
    std::string_view body = bytes;
    std::string got;
    if (bytes.starts_with(std::string_view("\xFF\xFE\0\0", 4))) {
      got = "UTF-32LE";
    } else if (bytes.starts_with(std::string_view("\0\0\xFE\xFF", 4))) {
      got = "UTF-32BE";
    } else if (const auto mark = byte_order_mark(bytes)) {
      got = mark->encoding;
    } else {
      const auto guess = detect_charset(body, options);
      got = guess ? guess->encoding : kUtf8;
    }
    if (folder == "UTF-16" || folder == "UTF-32") truth = got.starts_with(folder) ? got : truth;
    if (got != truth && decode_bytes(body, got).text != decode_bytes(body, truth).text)
      missed.push_back(folder + "/" + entry.path().filename().string() + " as " + got);
  }
  EXPECT_EQ(files, 425u);
  std::sort(missed.begin(), missed.end());
  EXPECT_EQ(missed, (std::vector<std::string>{"iso-8859-1/_ude_4.txt as windows-1251",
                                              "iso-8859-1/_ude_5.txt as windows-1250"}));
}

}  // namespace
}  // namespace sx
