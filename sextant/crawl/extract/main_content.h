#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/crawl/extract/boosted_trees.h"
#include "sextant/crawl/extract/html_blocks.h"
#include "sextant/text/dom.h"

namespace sx {

/// The two models that tell main content from the rest: a look at each block, and a second one that
/// also knows what the first thought of the blocks around. Immutable; shared by threads.
struct ContentModel {
  std::string about;  ///< data, command and scores it was made with
  BoostedTrees first;
  BoostedTrees second;

  std::string to_text() const;
  /// Errors: kCorrupt.
  static Result<ContentModel> from_text(std::string_view text);
  /// The model in the program (models/main.txt, made by `sextant crawl train extract`).
  static const ContentModel& standard();
};

/// How a text was found.
enum class ContentWay {
  kModel,      ///< blocks the model calls main
  kContainer,  ///< the text of article, main or itemprop=articleBody
  kLayout      ///< all visible text
};
const char* to_string(ContentWay way);

struct MainContent {
  std::string text;  ///< blocks in order, "\n\n" between paragraphs, "\n" between items and rows
  double confidence = 0;  ///< expected word F1 against what a reader would call the content, 0 to 1
  ContentWay way = ContentWay::kModel;
};

/// Probability of each block to be main content.
std::vector<double> block_probabilities(const HtmlBlocks& page, const ContentModel& model);

/// The set of blocks whose word F1 is expected to be the largest, given the probabilities: they are
/// taken from the most probable down while the expected F1 grows.
/// Source: the rule that maximises expected F under independent labels (Lewis, SIGIR 1995).
std::vector<bool> choose_blocks(const HtmlBlocks& page, const std::vector<double>& probabilities,
                                double* expected_f1 = nullptr);

/// The main content of a page. When the model finds next to nothing, the text of the page's
/// semantic container is taken, else its layout text; which one is said in `way`.
MainContent main_content(DomNode document, std::string_view url, const ContentModel& model);

}  // namespace sx
