// The guard on ordinary pages: all pages of the shared extraction data give the tree that lexbor
// gives without it.
#include <gtest/gtest.h>

#include "sextant/base/fs.h"
#include "sextant/text/byte_stream.h"
#include "sextant/text/html_parser.h"
#include "sextant/text/utf8.h"
#include "tests/support/test_data.h"

namespace sx {
namespace {

std::string read_all(const fs::path& path) {
  auto stream = ByteStream::open(path);
  EXPECT_TRUE(stream.ok()) << path;
  std::string out;
  while (stream->read_some(out).value()) {
  }
  return out;
}

/// Empty when the trees are equal, else the name of the first node that differs.
std::string first_difference(DomNode a, DomNode b) {
  DomNode x = a;
  DomNode y = b;
  while (x && y) {
    if (x.kind() != y.kind() || x.name() != y.name() || x.text() != y.text() ||
        x.attributes() != y.attributes())
      return std::string(x.name());
    x = x.following(a);
    y = y.following(b);
  }
  return static_cast<bool>(x) == static_cast<bool>(y) ? "" : "length";
}

TEST(HtmlPages, GuardChangesNoTreeOfOrdinaryPages) {
  HtmlParser guarded;
  HtmlParser bare;
  HtmlLimits limits;
  limits.drop_select = false;  // selects are left out on purpose
  HtmlLimits off;
  off.guard = false;
  std::size_t pages = 0;
  std::vector<std::string> changed;
  for (const auto& entry : fs::recursive_directory_iterator(test_data("extraction"))) {
    if (!entry.path().string().ends_with(".html.gz")) continue;
    ++pages;
    std::uint64_t replaced = 0;
    const std::string html = repair_utf8(read_all(entry.path()), replaced);
    const ParsedPage with = guarded.parse(html, limits);
    const ParsedPage without = bare.parse(html, off);
    if (!first_difference(with.document, without.document).empty())
      changed.push_back(entry.path().filename().string());
  }
  EXPECT_GT(pages, 1000u);
  EXPECT_EQ(changed, std::vector<std::string>{});
}

}  // namespace
}  // namespace sx
