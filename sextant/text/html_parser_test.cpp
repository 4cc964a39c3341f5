#include "sextant/text/html_parser.h"

#include <gtest/gtest.h>

#include <chrono>

#include "sextant/text/layout_text.h"

namespace sx {
namespace {

std::string repeat(const std::string& piece, std::size_t times) {
  std::string out;
  out.reserve(piece.size() * times);
  for (std::size_t i = 0; i < times; ++i) out += piece;
  return out;
}

std::size_t tree_depth(DomNode document) {
  std::size_t deepest = 0;
  std::size_t depth = 0;
  DomNode node = document;
  while (node) {
    if (node.first_child()) {
      node = node.first_child();
      deepest = std::max(deepest, ++depth);
      continue;
    }
    while (node && node != document && !node.next()) {
      node = node.parent();
      --depth;
    }
    node = node == document ? DomNode() : node.next();
  }
  return deepest;
}

std::string text_of(const std::string& html) {
  HtmlParser parser;
  return layout_text(parser.parse(html).document);
}

TEST(HtmlParser, BuildsTheTree) {
  HtmlParser parser;
  const ParsedPage page = parser.parse(
      "<!DOCTYPE html><title>a &amp; b</title><p CLASS=x id='y'>one<br>two<svg><a/></svg>");
  EXPECT_EQ(page.end, HtmlEnd::kComplete);
  DomNode html = page.document.last_child();
  EXPECT_EQ(html.tag(), Tag::kHtml);
  EXPECT_EQ(html.first_child().tag(), Tag::kHead);
  DomNode p = html.last_child().first_child();
  EXPECT_EQ(p.tag(), Tag::kP);
  EXPECT_EQ(p.name(), "p");
  EXPECT_EQ(p.attribute("class"), "x");
  EXPECT_EQ(p.attribute("id"), "y");
  EXPECT_EQ(p.attribute("style"), std::nullopt);
  EXPECT_EQ(p.first_child().text(), "one");
  EXPECT_EQ(p.last_child().tag(), Tag::kSvg);
  EXPECT_FALSE(p.last_child().is_html());
  EXPECT_EQ(p.last_child().first_child().namespace_prefix(), "svg");
  EXPECT_EQ(page_title(page.document), "a & b");
}

TEST(HtmlParser, ChunksDoNotMatter) {
  // A page longer than a chunk, with markup at every place of a chunk's border.
  std::string html;
  std::string want;
  for (int i = 0; i < 6000; ++i) {
    html += "<p title='t" + std::to_string(i) + "'>w&eacute;rd " + std::to_string(i) +
            " \xE2\x82\xAC</p>";
    want += (i ? "\n\nw\xC3\xA9rd " : "w\xC3\xA9rd ") + std::to_string(i) + " \xE2\x82\xAC";
  }
  EXPECT_EQ(text_of(html), want);
  EXPECT_EQ(text_of("x" + html), "x\n\n" + want);
}

TEST(HtmlParser, OneParserForManyPages) {
  HtmlParser parser;
  for (int i = 0; i < 200; ++i) {
    const ParsedPage page =
        parser.parse("<p>" + repeat("<b>x</b>", static_cast<std::size_t>(i)) + "</p>");
    EXPECT_EQ(layout_text(page.document).size(), static_cast<std::size_t>(i));
  }
}

TEST(HtmlGuard, DepthIsCappedAndTextStays) {
  HtmlParser parser;
  const ParsedPage page =
      parser.parse(repeat("<div>", 5000) + "deep" + repeat("</div>", 5000) + "<p>after</p>");
  EXPECT_LE(tree_depth(page.document), 514u);
  EXPECT_EQ(layout_text(page.document), "deep\n\nafter");
  EXPECT_EQ(page.end, HtmlEnd::kComplete);
}

TEST(HtmlGuard, ScriptsBelowTheCapAreStillScripts) {
  EXPECT_EQ(
      text_of(repeat("<div>", 600) + "<script>if (a<b) document.write('<p>no</p>')</script>yes"),
      "yes");
}

TEST(HtmlGuard, AttributesAreCut) {
  std::string html = "<p";
  for (int i = 0; i < 2000; ++i) html += " a" + std::to_string(i) + "=1";
  HtmlParser parser;
  const ParsedPage page = parser.parse(html + ">text");
  EXPECT_EQ(page.document.last_child().last_child().first_child().attributes().size(), 1024u);
  EXPECT_EQ(layout_text(page.document), "text");
}

TEST(HtmlGuard, SelectIsLeftOut) {
  EXPECT_EQ(text_of("a<select><option>x<option selected>y</option><optgroup><option>z</select>b"),
            "ab");
  EXPECT_EQ(text_of("a<select><option>x<p>para</p>"), "a\n\npara");
  EXPECT_EQ(text_of("<option>x</option><div>text</div>"), "text");
}

TEST(HtmlGuard, SmallPagesKeepTheirTree) {
  const std::string html =
      "<table><tr><td><b>a<i>b</b>c</i><ul><li>x<li>y</ul></table><p><a "
      "href=x>l</a><font>f</font><form><input></form>";
  HtmlParser guarded;
  HtmlParser free;
  HtmlLimits off;
  off.guard = false;
  const DomNode a = guarded.parse(html).document;
  const DomNode b = free.parse(html, off).document;
  DomNode x = a;
  DomNode y = b;
  while (x && y) {
    ASSERT_EQ(x.kind(), y.kind());
    ASSERT_EQ(x.name(), y.name());
    ASSERT_EQ(x.text(), y.text());
    ASSERT_EQ(x.attributes(), y.attributes());
    x = x.following(a);
    y = y.following(b);
  }
  EXPECT_EQ(static_cast<bool>(x), static_cast<bool>(y));
}

TEST(HtmlGuard, BudgetsStopThePage) {
  HtmlParser parser;
  HtmlLimits limits;
  limits.max_nodes = 100;
  const ParsedPage nodes = parser.parse(repeat("<p>word</p>", 1000), limits);
  EXPECT_EQ(nodes.end, HtmlEnd::kNodeLimit);
  EXPECT_EQ(layout_text(nodes.document).substr(0, 10), "word\n\nword");
  limits = {};
  limits.memory_per_byte = 1;
  const ParsedPage memory = parser.parse(repeat("<p>w", 200000), limits);
  EXPECT_EQ(memory.end, HtmlEnd::kMemoryLimit);
  EXPECT_LT(memory.memory_bytes, (std::size_t{9} << 20) + (std::size_t{2} << 20));
}

/// Pages of n and 4n bytes: the larger may cost 16 times the smaller (linear would be 4), and a
/// page costs no more than its memory budget. Times are processor times of this thread, compared
/// with each other only.
struct Hostile {
  const char* name;
  std::string (*make)(std::size_t n);
};

std::string distinct_attributes(std::size_t n) {
  std::string html = "<p";
  for (std::size_t i = 0; i < n; ++i) html += " a" + std::to_string(i);
  return html + ">x";
}

// Each of n elements has a name, or an attribute, that no other has.
std::string own_names(std::size_t n, const std::string& before, const std::string& behind) {
  std::string html;
  for (std::size_t i = 0; i < n; ++i) html += before + std::to_string(i) + behind;
  return html;
}

const Hostile kHostile[] = {
    {"elements of own names", [](std::size_t n) { return own_names(n, "<x", "></p>"); }},
    {"attributes of own names", [](std::size_t n) { return own_names(n, "<p a", "=1>"); }},
    {"div then p end", [](std::size_t n) { return repeat("<div>", n) + repeat("</p>", n); }},
    {"div", [](std::size_t n) { return repeat("<div>", n); }},
    {"attributes", distinct_attributes},
    {"options", [](std::size_t n) { return "<select>" + repeat("<option>", n); }},
    {"formatting in paragraphs", [](std::size_t n) { return repeat("<b id=i><p>", n / 20); }},
    {"distinct formatting",
     [](std::size_t n) {
       std::string html;
       for (std::size_t i = 0; i < n / 20; ++i) html += "<b id=" + std::to_string(i) + "><p>";
       return html;
     }},
    {"unclosed a", [](std::size_t n) { return repeat("<a href=x>", n); }},
    {"font", [](std::size_t n) { return repeat("<font></font>", n); }},
    {"svg template", [](std::size_t n) { return repeat("<svg><template>\n", n); }},
    {"rows", [](std::size_t n) { return "<table>" + repeat("<tr><td>x", n); }},
    {"text between rows", [](std::size_t n) { return "<table>" + repeat("<tr>x", n); }},
    {"nested tables", [](std::size_t n) { return repeat("<table><tr><td>", n); }},
    {"comment", [](std::size_t n) { return "<!--" + std::string(20 * n, '-') + "x"; }},
    {"attribute value",
     [](std::size_t n) { return "<p title='" + std::string(20 * n, 'x') + "'>"; }},
    {"attribute name", [](std::size_t n) { return "<p " + std::string(20 * n, 'x') + ">"; }},
    {"tag name", [](std::size_t n) { return "<" + std::string(20 * n, 'x') + ">"; }},
    {"references", [](std::size_t n) { return "<p>" + repeat("&amp;&#65;", n); }},
    {"bad references",
     [](std::size_t n) { return "<p>" + repeat("&", n) + repeat("&abcdefgh", n); }},
    {"nul bytes", [](std::size_t n) { return "<p>" + std::string(20 * n, '\0'); }},
    {"text", [](std::size_t n) { return "<p>" + repeat("word ", 4 * n); }},
    {"end tags", [](std::size_t n) { return repeat("</b></p>", n); }},
    {"frames of lists", [](std::size_t n) { return repeat("<ul><li>", n); }},
};

// The guard bounds the depth (512), the formatting elements (32) and the attributes of a tag
// (1024), so the work of a page grows with its size alone: no shape of page of four times the size
// may ask for more than five times the steps, and none for more steps a byte than the caps allow.
TEST(HtmlHostile, StepsAndMemoryGrowWithTheSizeAlone) {
  HtmlParser parser;
  for (const Hostile& hostile : kHostile) {
    const std::string small_html = hostile.make(5000);
    const std::string large_html = hostile.make(20000);
    const std::uint64_t small = parser.parse(small_html).steps;
    const ParsedPage large = parser.parse(large_html);
    EXPECT_LE(large.steps, 5 * small + 2'000'000) << hostile.name;
    EXPECT_LE(large.steps, (512 + 64) * large_html.size()) << hostile.name;
    EXPECT_LE(large.memory_bytes, 64 * large_html.size() + (std::size_t{10} << 20)) << hostile.name;
  }
}

// Without its guard the same pages need steps that grow with the square of their size: the count
// sees what the guard is for.
TEST(HtmlHostile, StepsSeeWhatTheGuardPrevents) {
  HtmlParser parser;
  HtmlLimits off;
  off.guard = false;
  const std::uint64_t small = parser.parse(repeat("<div>", 500), off).steps;
  const std::uint64_t large = parser.parse(repeat("<div>", 2000), off).steps;
  EXPECT_GT(large, 14 * small);
  const std::uint64_t guarded = parser.parse(repeat("<div>", 2000)).steps;
  EXPECT_LT(guarded, large / 2);
}

TEST(HtmlHostile, TextWalksAreLinear) {
  HtmlParser parser;
  for (const Hostile& hostile : kHostile) {
    const std::string html = hostile.make(20000);
    const std::string text = layout_text(parser.parse(html).document);
    EXPECT_LE(text.size(), 70 * html.size()) << hostile.name;
  }
}

TEST(HtmlHostile, FiftyMegabytesInOnePiece) {
  HtmlParser parser;
  const std::string big(std::size_t{50} << 20, 'x');
  for (const std::string& html :
       {"<p title='" + big + "'>after", "<!--" + big + "-->after", "<p>" + big}) {
    const ParsedPage page = parser.parse(html);
    EXPECT_LE(page.memory_bytes, 64 * html.size());
    const std::string text = layout_text(page.document);
    EXPECT_TRUE(text == "after" || text.size() == big.size());
  }
}

}  // namespace
}  // namespace sx
