#include "sextant/crawl/extract/main_content.h"

#include <gtest/gtest.h>

#include "sextant/base/rng.h"
#include "sextant/crawl/extract/block_features.h"
#include "sextant/crawl/extract/content_training.h"
#include "sextant/crawl/extract/extraction_score.h"
#include "sextant/text/html_parser.h"

namespace sx {
namespace {

TEST(BoostedTrees, LearnsARuleAndKeepsIt) {
  const RandomStream numbers(3, "test.trees");
  std::vector<float> rows;
  std::vector<float> labels;
  for (std::size_t i = 0; i < 2000; ++i) {
    const auto x = static_cast<float>(numbers.uniform(2 * i));
    const auto y = static_cast<float>(numbers.uniform(2 * i + 1));
    rows.insert(rows.end(), {x, y});
    labels.push_back((x > 0.5F) != (y > 0.3F) ? 1.0F : 0.0F);
  }
  const std::vector<float> weights(labels.size(), 1.0F);
  BoostedTrees::TrainOptions options;
  options.trees = 60;
  options.max_leaves = 8;
  const BoostedTrees model = BoostedTrees::train(rows, 2, labels, weights, options);
  std::size_t right = 0;
  for (std::size_t i = 0; i < labels.size(); ++i)
    right += (model.predict(std::span(rows).subspan(2 * i, 2)) > 0.5) == (labels[i] > 0.5F);
  EXPECT_GT(right, 1940u);
  const BoostedTrees again = BoostedTrees::train(rows, 2, labels, weights, options);
  EXPECT_EQ(model.to_text(), again.to_text());
  const auto read = BoostedTrees::from_text(model.to_text());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->to_text(), model.to_text());
  EXPECT_FALSE(BoostedTrees::from_text("sxtrees 1 1 2 0\n5 0.5 =1 =2").ok());
  EXPECT_FALSE(BoostedTrees::from_text("sxtrees 1 1 2 0\n1 0.5 =1").ok());
  EXPECT_FALSE(BoostedTrees::from_text("trees").ok());
}

HtmlBlocks blocks_of(HtmlParser& parser, const std::string& html, const std::string& url = "") {
  return cut_blocks(parser.parse(html).document, url);
}

TEST(HtmlBlocks, BordersLinksAndGroups) {
  HtmlParser parser;
  const HtmlBlocks page =
      blocks_of(parser,
                "<body><nav class='main-menu'><a href=x>Home</a> <a href=y>News</a></nav>"
                "<article><h1>Title</h1><p>One <b>bold</b>\n word.<br>Same.<br><br>Next.</p>"
                "<div>Before<p>inside</p>behind</div><pre>a\n  b</pre></article>"
                "<script>no</script><div style='display:none'>hidden</div>");
  std::vector<std::string> texts;
  for (const HtmlBlock& block : page.blocks) texts.push_back(block.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"Home News", "Title", "One bold word. Same.", "Next.",
                                             "Before", "inside", "behind", "a\n  b", "hidden"}));
  EXPECT_EQ(page.blocks[0].link_chars, 8u);
  EXPECT_EQ(page.blocks[1].tag, Tag::kH1);
  EXPECT_EQ(page.blocks[2].words, 4u);
  EXPECT_TRUE(page.blocks[7].preformatted);
  bool menu = false;
  for (const HtmlElement& element : page.elements) {
    if (element.tag == Tag::kNav)
      menu = (element.groups >> static_cast<unsigned>(WordGroup::kNavigation) & 1U) != 0;
    EXPECT_LE(element.first_block, element.end_block);
    EXPECT_LE(element.end_block, page.blocks.size());
  }
  EXPECT_TRUE(menu);
  EXPECT_TRUE(page.elements[static_cast<std::size_t>(page.blocks[8].element)].hidden);
}

TEST(HtmlBlocks, NestingWithoutRecursion) {
  HtmlParser parser;
  std::string html;
  for (int i = 0; i < 50000; ++i) html += "<div>x";
  const HtmlBlocks page = blocks_of(parser, html);
  EXPECT_GT(page.blocks.size(), 500u);
  EXPECT_EQ(block_features(page).size(), page.blocks.size() * num_block_features());
}

TEST(BlockLabels, TruthCoversRunsOfWords) {
  HtmlParser parser;
  const HtmlBlocks page = blocks_of(
      parser, "<body><p>Menu</p><p>The quick brown fox jumps over the dog.</p><p>Menu</p>");
  LabelledPage labelled;
  labelled.truth = "Menu. The quick brown fox jumps over the dog.";
  labelled.has_truth = true;
  const BlockLabels labels = label_blocks(page, labelled);
  EXPECT_EQ(labels.labels, (std::vector<float>{1, 1, 0}));  // one "Menu" in the truth
  labelled.has_truth = false;
  labelled.with = {"quick brown"};
  labelled.without = {"Menu"};
  const BlockLabels snippets = label_blocks(page, labelled);
  EXPECT_EQ(snippets.labels, (std::vector<float>{0, 1, 0}));
}

TEST(ChooseBlocks, MaximisesExpectedF1) {
  HtmlParser parser;
  const HtmlBlocks page =
      blocks_of(parser, "<body><p>a b c d e f g h i j</p><p>k l</p><p>m n o p q r s t</p>");
  double f1 = 0;
  EXPECT_EQ(choose_blocks(page, {0.9, 0.6, 0.1}, &f1), (std::vector<bool>{true, true, false}));
  EXPECT_NEAR(f1, 2 * (9 + 1.2) / (12 + 9 + 1.2 + 0.8), 1e-9);
  // Alone on a page, even an unlikely block is the better bet.
  EXPECT_EQ(choose_blocks(page, {0.05, 0.4, 0.05}), (std::vector<bool>{false, true, false}));
}

TEST(ExtractionScore, MeasuresAsTheBenchmarksDefineThem) {
  EXPECT_DOUBLE_EQ(word_score("a b c d", "A b x").f1, 2 * (2.0 / 3) * 0.5 / (2.0 / 3 + 0.5));
  EXPECT_EQ(word_score("", "").f1, 1);
  EXPECT_EQ(word_score("", "x").f1, 0);
  const ShingleCounts counts = shingle_counts("a b c d e", "a b c d f");
  EXPECT_DOUBLE_EQ(counts.tp, 1.0 / 3);
  EXPECT_DOUBLE_EQ(counts.fp, 1.0 / 3);
  EXPECT_DOUBLE_EQ(counts.fn, 1.0 / 3);
  EXPECT_EQ(shingle_counts("a b", "a b").tp, 1);
  EXPECT_DOUBLE_EQ(bigram_or_word_score("机器学习", "机器学").f1,
                   2 * 1 * (2.0 / 3) / (1 + 2.0 / 3));
  ExtractionScore score;
  LabelledPage page;
  page.set = "trafilatura";
  page.with = {"yes", "also"};
  page.without = {"no"};
  score.add(page, "yes and no");
  EXPECT_DOUBLE_EQ(score.lines()[0].score, 0.5);
}

const char* const kArticle =
    "<html><head><title>T</title></head><body>"
    "<div class='nav menu'><ul><li><a href=/a>Home</a><li><a href=/b>World</a><li><a "
    "href=/c>Sport</a></ul></div><article class='post'><h1>A headline about the weather</h1>"
    "<p>The weather was fine yesterday, and it will be fine tomorrow, too. People went out to the "
    "parks in large numbers, said an officer of the town, who had counted them.</p>"
    "<p>Rain is expected at the end of the week. Farmers wait for it, because the ground has been "
    "dry since the beginning of the month, and wells run low.</p>"
    "<p>The institute will publish its next forecast on Friday. It had been right in four of five "
    "cases during the last year, which is better than the year before.</p></article>"
    "<div class='related sidebar'><h3>Related</h3><ul><li><a href=/d>Ten tips for rain</a><li><a "
    "href=/e>Buy umbrellas now</a></ul></div>"
    "<footer class='footer'>Copyright 2020 <a href=/i>Imprint</a> <a href=/p>Privacy</a></footer>";

TEST(MainContent, ArticleWithoutItsFurniture) {
  HtmlParser parser;
  const MainContent content = main_content(parser.parse(kArticle).document,
                                           "http://a.test/news/weather", ContentModel::standard());
  EXPECT_EQ(content.way, ContentWay::kModel);
  EXPECT_NE(content.text.find("The weather was fine"), std::string::npos);
  EXPECT_NE(content.text.find("better than the year before."), std::string::npos);
  EXPECT_EQ(content.text.find("umbrellas"), std::string::npos) << content.text;
  EXPECT_EQ(content.text.find("Imprint"), std::string::npos) << content.text;
  EXPECT_EQ(content.text.find("Sport"), std::string::npos) << content.text;
  EXPECT_GT(content.confidence, 0.6);
}

TEST(MainContent, SomethingComesOutOfLittle) {
  HtmlParser parser;
  const auto text = [&](const std::string& html) {
    return main_content(parser.parse(html).document, "", ContentModel::standard()).text;
  };
  EXPECT_EQ(text(""), "");
  EXPECT_EQ(text("<p>Three words only"), "Three words only");
  EXPECT_EQ(text("<body><script>x</script>"), "");
}

TEST(ContentModel, WordListHoldsNoHost) {
  const std::string& about = ContentModel::standard().about;
  EXPECT_NE(about.find("sextant crawl train extract"), std::string::npos);
  EXPECT_EQ(about.find(".com"), std::string::npos);
  EXPECT_EQ(about.find("http"), std::string::npos);
}

}  // namespace
}  // namespace sx
