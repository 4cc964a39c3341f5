#include "sextant/text/layout_text.h"

#include <gtest/gtest.h>

#include "sextant/text/html_parser.h"

namespace sx {
namespace {

struct Case {
  const char* html;
  const char* text;
};

TEST(LayoutText, Vectors) {
  const Case cases[] = {
      {"", ""},
      {"  \n ", ""},
      {"plain", "plain"},
      {" a \n\t b  c ", "a b c"},
      {"a<b>b</b> <i> c</i>d", "ab cd"},
      {"<p>one</p><p>two</p>", "one\n\ntwo"},
      {"<div>one</div><div>two</div>", "one\ntwo"},
      {"<div>one<div>two</div></div>three", "one\ntwo\nthree"},
      {"<div>one</div><p>two</p><div>three</div>", "one\n\ntwo\n\nthree"},
      {"<h1>T</h1>text<h5>s</h5>more", "T\n\ntext\ns\nmore"},
      {"<p>a<br>b</p>", "a\nb"},
      {"<p>a<br><br>b</p>", "a\n\nb"},
      {"<p>a <br> b</p>", "a\nb"},
      {"<p>  a  </p>  <p>  b  </p>", "a\n\nb"},
      {"<p></p><p>a</p><p> </p><p>b</p>", "a\n\nb"},
      {"<ul><li>a</li><li>b</li></ul>", "  \u2022 a\n  \u2022 b"},
      {"<p>x</p><ul><li>a<li>b</ul>y", "x\n\n  \u2022 a\n  \u2022 b\ny"},
      {"<ol><li>a<li>b</ol>", "  1. a\n  2. b"},
      {"<ol><li value=7>a<li>b</ol>", "  7. a\n  8. b"},
      {"<ul><li>a<ul><li>b</ul><li>c</ul>", "  \u2022 a\n    \u2022 b\n  \u2022 c"},
      {"<ul><li><p>a</p><p>b</p></ul>", "  \u2022 a\n\n    b"},
      {"<ul><li></li><li>b</li></ul>", "  \u2022 b"},
      {"<li>lone</li>after", "  \u2022 lone\nafter"},
      {"<ul><li><a href=x>l</a> t</ul>", "  \u2022 l t"},
      {"<table><tr><td>a<td>b<tr><td>c<td>d</table>", "a\t\tb\nc\t\td"},
      {"<table><tr><th>h</th><td> x </td></tr></table>", "h\t\tx"},
      {"<table><tr><td><p>a</p></td><td>b</td></tr></table>", "a\n\nb"},
      {"<pre>  a\n   b\n</pre>c", "  a\n   b\nc"},
      {"<p>x</p><pre>a  b</pre>", "x\n\na  b"},
      {"<img alt='A picture'>", "A picture"},
      {"<img title=t><img alt=''>", ""},
      {"a <img alt=b> c", "a b c"},
      {"<head><title>t</title></head><body>b", "b"},
      {"a<script>x</script><style>y</style><!-- z --><noscript>n</noscript>b", "ab"},
      {"a<textarea>x</textarea><button>y</button><input value=z>b", "ab"},
      {"a<svg><text>s</text></svg><math><mi>m</mi></math>b", "ab"},
      {"a<template>x</template><iframe>y</iframe><object>z</object>b", "ab"},
      {"&lt;b&gt; &amp; &nbsp;x", "<b> & \u00A0x"},
      {"<dl><dt>t<dd>d</dl>", "t\nd"},
      {"<blockquote>q</blockquote>a", "q\na"},
      {"a&#0;b&#13;c", "a\uFFFDb c"},
  };
  HtmlParser parser;
  for (const Case& c : cases)
    EXPECT_EQ(layout_text(parser.parse(c.html).document), c.text) << c.html;
}

TEST(LayoutText, TitleAndLanguage) {
  HtmlParser parser;
  DomNode document =
      parser.parse("<html lang=de-AT><title> Ein\n Titel </title><body lang=fr><title>no</title>")
          .document;
  EXPECT_EQ(page_title(document), "Ein Titel");
  EXPECT_EQ(page_language(document), "de-AT");
  document = parser.parse("<svg><title>drawing</title></svg><body lang='en'>").document;
  EXPECT_EQ(page_title(document), "");
  document = parser.parse("<html xml:lang=ja><p>x").document;
  EXPECT_EQ(page_language(document), "ja");
  EXPECT_EQ(page_language(parser.parse("<p>x").document), "");
}

TEST(LayoutText, DeepTreesAreWalkedWithoutRecursion) {
  HtmlLimits off;
  off.guard = false;
  std::string html;
  for (int i = 0; i < 20000; ++i) html += "<i>";
  HtmlParser parser;
  EXPECT_EQ(layout_text(parser.parse(html + "x", off).document), "x");
}

}  // namespace
}  // namespace sx
