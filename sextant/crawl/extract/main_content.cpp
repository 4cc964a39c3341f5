#include "sextant/crawl/extract/main_content.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "sextant/base/check.h"
#include "sextant/crawl/extract/block_features.h"
#include "sextant/text/layout_text.h"

namespace sx {

// From the file the build makes of models/main.txt.
std::string_view embedded_content_model();

namespace {

constexpr std::string_view kModelMagic = "sextant content model 1\n";
constexpr std::string_view kModelBorder = "\n----\n";
constexpr std::uint32_t kFewWords =
    5;  // a page with less main content than this is looked at again

/// A block's own words may repeat on the page (a headline in a banner and above the text): the
/// first of equal long blocks is enough.
std::vector<bool> without_repeats(const HtmlBlocks& page, std::vector<bool> chosen) {
  std::vector<std::string_view> seen;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (!chosen[i] || page.blocks[i].words < 8) continue;
    const std::string_view text = page.blocks[i].text;
    if (std::find(seen.begin(), seen.end(), text) != seen.end())
      chosen[i] = false;
    else
      seen.push_back(text);
    if (seen.size() > 200) seen.erase(seen.begin());
  }
  return chosen;
}

bool is_close(const HtmlBlock& a, const HtmlBlock& b) {
  const auto row = [](Tag tag) {
    return tag == Tag::kLi || tag == Tag::kTd || tag == Tag::kTh || tag == Tag::kDt ||
           tag == Tag::kDd;
  };
  return row(a.tag) && row(b.tag);
}

std::string join_blocks(const HtmlBlocks& page, const std::vector<bool>& chosen) {
  std::string out;
  const HtmlBlock* before = nullptr;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (!chosen[i]) continue;
    const HtmlBlock& block = page.blocks[i];
    if (before != nullptr) out += is_close(*before, block) ? "\n" : "\n\n";
    out += block.text;
    before = &block;
  }
  return out;
}

std::uint32_t chosen_words(const HtmlBlocks& page, const std::vector<bool>& chosen) {
  std::uint32_t words = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) words += chosen[i] ? page.blocks[i].words : 0;
  return words;
}

/// The largest element that names itself the content of the page.
const HtmlElement* semantic_container(const HtmlBlocks& page) {
  const HtmlElement* best = nullptr;
  for (const HtmlElement& element : page.elements) {
    if (element.tag != Tag::kArticle && element.tag != Tag::kMain) continue;
    if (best == nullptr || element.chars > best->chars) best = &element;
  }
  return best;
}

}  // namespace

const char* to_string(ContentWay way) {
  switch (way) {
    case ContentWay::kModel: return "model";
    case ContentWay::kContainer: return "container";
    default: return "layout";
  }
}

std::string ContentModel::to_text() const {
  return std::string(kModelMagic) + about + std::string(kModelBorder) + first.to_text() +
         std::string(kModelBorder) + second.to_text();
}

Result<ContentModel> ContentModel::from_text(std::string_view text) {
  const auto corrupt = [](const char* what) {
    return Error{ErrorKind::kCorrupt, what, "content model"};
  };
  if (!text.starts_with(kModelMagic)) return corrupt("it has no first line of a content model");
  text.remove_prefix(kModelMagic.size());
  const std::size_t one = text.find(kModelBorder);
  if (one == std::string_view::npos) return corrupt("it has no models");
  ContentModel model;
  model.about = text.substr(0, one);
  text.remove_prefix(one + kModelBorder.size());
  const std::size_t two = text.find(kModelBorder);
  if (two == std::string_view::npos) return corrupt("it has one model, not two");
  SX_TRY(model.first, BoostedTrees::from_text(text.substr(0, two)));
  SX_TRY(model.second, BoostedTrees::from_text(text.substr(two + kModelBorder.size())));
  if (model.first.num_features() != num_block_features() ||
      model.second.num_features() != num_context_features())
    return corrupt("its models are of other features than this program's");
  return model;
}

const ContentModel& ContentModel::standard() {
  static const ContentModel kModel = [] {
    auto model = from_text(embedded_content_model());
    SX_CHECK(model.ok(), "the built-in content model: {}", model.error().to_string());
    return std::move(model).value();
  }();
  return kModel;
}

std::vector<double> block_probabilities(const HtmlBlocks& page, const ContentModel& model) {
  const std::size_t n = page.blocks.size();
  const std::vector<float> rows = block_features(page);
  std::vector<double> guess(n);
  const std::size_t width = num_block_features();
  for (std::size_t i = 0; i < n; ++i)
    guess[i] = model.first.predict(std::span(rows).subspan(i * width, width));
  const std::vector<float> wide = context_features(page, rows, guess);
  const std::size_t wide_width = num_context_features();
  std::vector<double> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = model.second.predict(std::span(wide).subspan(i * wide_width, wide_width));
  return out;
}

std::vector<bool> choose_blocks(const HtmlBlocks& page, const std::vector<double>& probabilities,
                                double* expected_f1) {
  std::vector<std::size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return probabilities[a] > probabilities[b];
  });
  double truth = 0;  // words expected to be main content
  for (std::size_t i = 0; i < order.size(); ++i) truth += probabilities[i] * page.blocks[i].words;
  std::vector<bool> chosen(order.size());
  double taken = 0;
  double right = 0;
  double best = 0;
  for (const std::size_t i : order) {
    const double words = page.blocks[i].words;
    const double f1 =
        2 * (right + probabilities[i] * words) / std::max(taken + words + truth, 1e-9);
    // Below even odds a block must pay for itself; equal F1 (no words) does not hurt.
    if (f1 < best && probabilities[i] < 0.5) break;
    best = f1;
    taken += words;
    right += probabilities[i] * words;
    chosen[i] = true;
  }
  if (expected_f1 != nullptr) *expected_f1 = best;
  return chosen;
}

MainContent main_content(DomNode document, std::string_view url, const ContentModel& model) {
  const HtmlBlocks page = cut_blocks(document, url);
  MainContent out;
  const std::vector<bool> chosen =
      without_repeats(page, choose_blocks(page, block_probabilities(page, model), &out.confidence));
  if (chosen_words(page, chosen) >= kFewWords) {
    out.text = join_blocks(page, chosen);
    return out;
  }
  if (const HtmlElement* container = semantic_container(page)) {
    std::vector<bool> inside(page.blocks.size());
    for (std::size_t i = container->first_block; i < container->end_block; ++i) inside[i] = true;
    if (chosen_words(page, inside) >= kFewWords) {
      out.text = join_blocks(page, inside);
      out.way = ContentWay::kContainer;
      return out;
    }
  }
  out.text = layout_text(document);
  out.way = ContentWay::kLayout;
  return out;
}

}  // namespace sx
