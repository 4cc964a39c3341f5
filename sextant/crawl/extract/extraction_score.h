#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/crawl/extract/content_training.h"

namespace sx {

/// Precision, recall and F1 of one page.
struct WordScore {
  double precision = 0, recall = 0, f1 = 0;
};

/// WCXB: multisets of \w+ of the lower-cased texts; an empty truth scores 1 for an empty
/// prediction, else 0.
WordScore word_score(std::string_view truth, std::string_view got);

/// Scrapinghub: true positives, false positives and false negatives of 4-gram shingles of \w+,
/// divided by their sum.
struct ShingleCounts {
  double tp = 0, fp = 0, fn = 0;
};
ShingleCounts shingle_counts(std::string_view truth, std::string_view got);

/// magic-html: character bigrams where ideographs prevail in the truth, else word_score.
WordScore bigram_or_word_score(std::string_view truth, std::string_view got);

/// Scores of extractions over the benchmarks, each as it defines them.
class ExtractionScore {
 public:
  void add(const LabelledPage& page, std::string_view got);

  struct Line {
    std::string name;  ///< "wcxb", "wcxb/forum", "scrapinghub" ...
    std::string metric;
    double precision = 0, recall = 0, score = 0;
    std::size_t pages = 0;
  };
  /// Sets first, then their page types.
  std::vector<Line> lines() const;

 private:
  struct Sums {
    double precision = 0, recall = 0, f1 = 0;
    std::size_t pages = 0;
  };
  struct Shingles {
    double precision = 0, recall = 0;
    std::size_t with_prediction = 0, with_truth = 0, pages = 0;
  };
  struct Snippets {
    double tp = 0, fp = 0, fn = 0, tn = 0;
    std::size_t pages = 0;
  };
  std::map<std::string, Sums> words_;
  std::map<std::string, Shingles> shingles_;
  std::map<std::string, Snippets> snippets_;
};

}  // namespace sx
