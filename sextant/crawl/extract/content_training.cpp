#include "sextant/crawl/extract/content_training.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "sextant/base/hash.h"
#include "sextant/crawl/extract/block_features.h"
#include "sextant/crawl/url.h"
#include "sextant/text/html_parser.h"
#include "sextant/text/unicode.h"

namespace sx {

namespace {

/// Hashes of the words of a text: letters, digits and "_" in runs, ideographs one by one.
std::vector<std::uint64_t> word_hashes(std::string_view text) {
  const std::string lower = lower_text(text);
  std::vector<std::uint64_t> out;
  std::size_t begin = std::string::npos;
  const auto close = [&](std::size_t end) {
    if (begin != std::string::npos)
      out.push_back(xxh3_64(std::string_view(lower).substr(begin, end - begin)));
    begin = std::string::npos;
  };
  for (std::size_t pos = 0; pos < lower.size();) {
    const std::size_t at = pos;
    const char32_t c = next_code_point(lower, pos);
    const bool cjk = (c >= 0x3040 && c <= 0x30FF) || (c >= 0x3400 && c <= 0x9FFF);
    if (cjk) {
      close(at);
      out.push_back(c);
    } else if (is_alnum(c) || c == '_') {
      if (begin == std::string::npos) begin = at;
    } else {
      close(at);
    }
  }
  close(lower.size());
  return out;
}

std::uint64_t run_hash(const std::vector<std::uint64_t>& words, std::size_t begin,
                       std::size_t count) {
  std::uint64_t hash = count * 0x9E3779B97F4A7C15;
  for (std::size_t i = 0; i < count; ++i)
    hash = (hash ^ words[begin + i]) * 0xC2B2AE3D27D4EB4F + (hash >> 29);
  return hash;
}

constexpr std::size_t kRun = 5;

/// How often each run of 1 to 5 words stands in the truth.
class TruthRuns {
 public:
  explicit TruthRuns(std::string_view truth) : words_(word_hashes(truth)) {
    for (std::size_t n = 1; n <= kRun; ++n) {
      for (std::size_t i = 0; i + n <= words_.size(); ++i) ++runs_[run_hash(words_, i, n)];
    }
  }
  bool empty() const { return words_.empty(); }

  /// Share of `words` inside runs that the truth holds; short blocks use a run up so that the
  /// same menu word is not counted for every place.
  double covered(const std::vector<std::uint64_t>& words) {
    if (words.empty()) return 0;
    const std::size_t n = std::min(kRun, words.size());
    std::vector<bool> hit(words.size());
    for (std::size_t i = 0; i + n <= words.size(); ++i) {
      const auto found = runs_.find(run_hash(words, i, n));
      if (found == runs_.end() || found->second <= 0) continue;
      if (words.size() < kRun) --found->second;
      for (std::size_t k = 0; k < n; ++k) hit[i + k] = true;
    }
    return static_cast<double>(std::count(hit.begin(), hit.end(), true)) /
           static_cast<double>(words.size());
  }

 private:
  std::vector<std::uint64_t> words_;
  std::unordered_map<std::uint64_t, int> runs_;
};

/// Pages only known by snippets: blocks that hold one, or stand in one.
BlockLabels label_by_snippets(const HtmlBlocks& blocks, const LabelledPage& page) {
  BlockLabels out;
  const auto touches = [](const std::string& text, const std::vector<std::string>& snippets) {
    return std::any_of(snippets.begin(), snippets.end(), [&](const std::string& s) {
      return text.find(s) != std::string::npos ||
             (text.size() > 15 && s.find(text) != std::string::npos);
    });
  };
  for (const HtmlBlock& block : blocks.blocks) {
    const bool in = touches(block.text, page.with);
    const bool off = touches(block.text, page.without);
    out.labels.push_back(in ? 1.0F : 0.0F);
    out.weights.push_back(in != off ? 3.0F : 0.0F);
  }
  return out;
}

struct Fold {
  std::vector<float> rows, labels, weights;
};

/// A page turned into numbers once.
struct PreparedPage {
  HtmlBlocks blocks;
  std::vector<float> rows;
  BlockLabels labels;
  std::size_t fold = 0;
};

BoostedTrees train_on(const std::vector<PreparedPage>& pages,
                      const std::vector<std::vector<float>>& rows, std::size_t width,
                      std::size_t left_out, const TrainingPlan& plan) {
  Fold data;
  for (std::size_t p = 0; p < pages.size(); ++p) {
    if (pages[p].fold == left_out) continue;
    for (std::size_t i = 0; i < pages[p].labels.labels.size(); ++i) {
      if (pages[p].labels.weights[i] <= 0) continue;
      data.rows.insert(data.rows.end(), rows[p].begin() + static_cast<std::ptrdiff_t>(i * width),
                       rows[p].begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
      data.labels.push_back(pages[p].labels.labels[i]);
      data.weights.push_back(pages[p].labels.weights[i]);
    }
  }
  BoostedTrees::TrainOptions options;
  options.trees = plan.trees;
  options.max_leaves = plan.leaves;
  return BoostedTrees::train(data.rows, width, data.labels, data.weights, options);
}

std::vector<double> guesses(const PreparedPage& page, const BoostedTrees& model) {
  const std::size_t width = num_block_features();
  std::vector<double> out(page.blocks.blocks.size());
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = model.predict(std::span(page.rows).subspan(i * width, width));
  return out;
}

}  // namespace

std::size_t fold_of(const LabelledPage& page, std::size_t num_folds) {
  std::string_view host = host_of(page.url);
  const std::size_t last = host.rfind('.');
  if (last != std::string_view::npos && last > 0) {
    std::size_t second = host.rfind('.', last - 1);
    // co.uk, com.br and the like: three labels name the site.
    if (second != std::string_view::npos && second > 0 && last - second <= 4)
      second = host.rfind('.', second - 1);
    if (second != std::string_view::npos) host = host.substr(second + 1);
  }
  return static_cast<std::size_t>(xxh3_64(host) % num_folds);
}

BlockLabels label_blocks(const HtmlBlocks& blocks, const LabelledPage& page) {
  if (!page.has_truth) return label_by_snippets(blocks, page);
  BlockLabels out;
  TruthRuns truth(page.truth);
  double total = 0;
  for (const HtmlBlock& block : blocks.blocks) {
    const std::vector<std::uint64_t> words = word_hashes(block.text);
    const double share = truth.covered(words);
    out.labels.push_back(static_cast<float>(share < 0.15 ? 0 : share));
    const double weight = std::sqrt(std::min<double>(block.words, 100) + 0.25);
    out.weights.push_back(static_cast<float>(weight));
    total += weight;
  }
  // Pages count alike, but for those of very few blocks.
  const double scale = total > 0 ? 60 / (total + 20) : 0;
  for (float& weight : out.weights) weight *= static_cast<float>(scale);
  return out;
}

ContentModel train_content_model(const std::vector<LabelledPage>& pages, const TrainingPlan& plan) {
  HtmlParser parser;
  std::vector<PreparedPage> prepared;
  for (const LabelledPage& page : pages) {
    PreparedPage out;
    out.blocks = cut_blocks(parser.parse(page.html).document, page.url);
    if (out.blocks.blocks.empty()) continue;
    out.rows = block_features(out.blocks);
    out.labels = label_blocks(out.blocks, page);
    out.fold = fold_of(page, plan.folds);
    prepared.push_back(std::move(out));
  }
  std::vector<std::vector<float>> rows;
  for (const PreparedPage& page : prepared) rows.push_back(page.rows);
  ContentModel model;
  const std::size_t none = plan.folds;
  model.first = train_on(prepared, rows, num_block_features(), none, plan);
  for (std::size_t fold = 0; fold < plan.folds; ++fold) {
    const BoostedTrees others = train_on(prepared, rows, num_block_features(), fold, plan);
    for (std::size_t p = 0; p < prepared.size(); ++p) {
      if (prepared[p].fold != fold) continue;
      rows[p] =
          context_features(prepared[p].blocks, prepared[p].rows, guesses(prepared[p], others));
    }
  }
  model.second = train_on(prepared, rows, num_context_features(), none, plan);
  return model;
}

}  // namespace sx
