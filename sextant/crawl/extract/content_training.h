#pragma once

#include <string>
#include <vector>

#include "sextant/crawl/extract/main_content.h"

namespace sx {

/// A page with what its content is.
struct LabelledPage {
  std::string set;  ///< "scrapinghub", "wcxb", "trafilatura", "magic-html"
  std::string id;
  std::string kind;  ///< page type, where the set names one
  std::string url;
  std::string html;   ///< UTF-8
  std::string truth;  ///< the whole content; empty with `has_truth` = there is none
  bool has_truth = false;
  std::vector<std::string> with, without;  ///< snippets that must and must not come out
};

/// Names of folds by site, so that no site is in two of them: hash of the host's last two labels.
std::size_t fold_of(const LabelledPage& page, std::size_t num_folds);

/// Share of each block's words that the truth holds in the same order (runs of up to five words),
/// and how much the block weighs in training; 0 = says nothing.
struct BlockLabels {
  std::vector<float> labels, weights;
};
BlockLabels label_blocks(const HtmlBlocks& blocks, const LabelledPage& page);

struct TrainingPlan {
  std::size_t trees = 120;
  std::size_t leaves = 31;
  std::size_t folds = 3;
};

/// Trains on `pages`: the first model on all of them; the second on guesses that models of the
/// other folds made, so that it meets first guesses as wrong as they are on new pages. A function
/// of its arguments alone.
ContentModel train_content_model(const std::vector<LabelledPage>& pages, const TrainingPlan& plan);

}  // namespace sx
