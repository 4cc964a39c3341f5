#include "sextant/crawl/extract/boosted_trees.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "sextant/base/check.h"

namespace sx {

namespace {

constexpr std::size_t kBins = 64;

/// Feature values as bins of nearly equal counts.
struct BinnedRows {
  /// Per feature: a value belongs to the first bin whose edge is not below it.
  std::vector<std::vector<float>> edges;
  std::vector<std::uint8_t> bins;  // row by row
};

BinnedRows bin_rows(std::span<const float> rows, std::size_t num_features, std::size_t num_rows) {
  BinnedRows out;
  out.edges.resize(num_features);
  out.bins.resize(num_rows * num_features);
  std::vector<float> values(num_rows);
  for (std::size_t f = 0; f < num_features; ++f) {
    for (std::size_t r = 0; r < num_rows; ++r) values[r] = rows[r * num_features + f];
    std::sort(values.begin(), values.end());
    std::vector<float>& edges = out.edges[f];
    for (std::size_t b = 1; b < kBins; ++b) {
      const float edge = values[b * (num_rows - 1) / kBins];
      if ((edges.empty() || edge > edges.back()) && edge < values.back()) edges.push_back(edge);
    }
    for (std::size_t r = 0; r < num_rows; ++r) {
      const auto bin = std::lower_bound(edges.begin(), edges.end(), rows[r * num_features + f]);
      out.bins[r * num_features + f] = static_cast<std::uint8_t>(bin - edges.begin());
    }
  }
  return out;
}

struct GradientSum {
  float gradient = 0, hessian = 0;
};

/// Sums per feature and bin.
using BinSums = std::vector<GradientSum>;

struct Split {
  double gain = 0;
  std::size_t feature = 0, bin = 0;
};

/// A node that may still be split: a range of the row order.
struct OpenLeaf {
  std::size_t begin = 0, end = 0;
  double gradient = 0, hessian = 0;
  Split best;
  std::size_t node = 0;
  BinSums histogram;
};

/// Grows one tree on a sample of the rows, the leaf of the largest gain first.
class TreeGrower {
 public:
  TreeGrower(const BinnedRows& rows, const std::vector<float>& gradients,
             const std::vector<float>& hessians, const BoostedTrees::TrainOptions& options,
             std::vector<std::uint32_t> sample)
      : rows_(rows),
        num_features_(rows.edges.size()),
        gradients_(gradients),
        hessians_(hessians),
        options_(options),
        order_(std::move(sample)) {}

  struct GrownNode {
    int feature = -1;
    std::size_t bin = 0;
    double weight = 0;
    std::size_t left = 0, right = 0;
  };

  std::vector<GrownNode> grow() {
    std::vector<GrownNode> nodes(1);
    std::vector<OpenLeaf> leaves;
    leaves.push_back(open_leaf(0, order_.size(), 0, count(0, order_.size())));
    while (leaves.size() < options_.max_leaves) {
      const auto best =
          std::max_element(leaves.begin(), leaves.end(),
                           [](const auto& a, const auto& b) { return a.best.gain < b.best.gain; });
      if (best->best.gain <= 1e-6) break;
      OpenLeaf leaf = std::move(*best);
      const auto middle = std::stable_partition(
          order_.begin() + static_cast<std::ptrdiff_t>(leaf.begin),
          order_.begin() + static_cast<std::ptrdiff_t>(leaf.end), [&](std::uint32_t row) {
            return rows_.bins[row * num_features_ + leaf.best.feature] <= leaf.best.bin;
          });
      const auto cut = static_cast<std::size_t>(middle - order_.begin());
      const std::size_t left = nodes.size();
      nodes.resize(nodes.size() + 2);
      nodes[leaf.node].feature = static_cast<int>(leaf.best.feature);
      nodes[leaf.node].bin = leaf.best.bin;
      nodes[leaf.node].left = left;
      nodes[leaf.node].right = left + 1;
      // The larger child's sums are the parent's less the smaller one's.
      const bool left_is_small = cut - leaf.begin <= leaf.end - cut;
      BinSums small = left_is_small ? count(leaf.begin, cut) : count(cut, leaf.end);
      BinSums large = std::move(leaf.histogram);
      for (std::size_t i = 0; i < large.size(); ++i) {
        large[i].gradient -= small[i].gradient;
        large[i].hessian -= small[i].hessian;
      }
      *best = open_leaf(leaf.begin, cut, left, left_is_small ? std::move(small) : large);
      leaves.push_back(
          open_leaf(cut, leaf.end, left + 1, left_is_small ? std::move(large) : std::move(small)));
    }
    for (const OpenLeaf& leaf : leaves)
      nodes[leaf.node].weight = -options_.rate * leaf.gradient / (leaf.hessian + options_.l2);
    return nodes;
  }

 private:
  BinSums count(std::size_t begin, std::size_t end) const {
    BinSums out(num_features_ * kBins);
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t row = order_[i];
      const std::uint8_t* bins = &rows_.bins[row * num_features_];
      const float gradient = gradients_[row];
      const float hessian = hessians_[row];
      GradientSum* sums = out.data();
      for (std::size_t f = 0; f < num_features_; ++f, sums += kBins) {
        sums[bins[f]].gradient += gradient;
        sums[bins[f]].hessian += hessian;
      }
    }
    return out;
  }

  OpenLeaf open_leaf(std::size_t begin, std::size_t end, std::size_t node,
                     BinSums histogram) const {
    OpenLeaf leaf;
    leaf.begin = begin;
    leaf.end = end;
    leaf.node = node;
    leaf.histogram = std::move(histogram);
    for (std::size_t i = begin; i < end; ++i) {
      leaf.gradient += gradients_[order_[i]];
      leaf.hessian += hessians_[order_[i]];
    }
    if (leaf.hessian < 2 * least_hessian() || end - begin < 4) return leaf;
    for (std::size_t f = 0; f < num_features_; ++f) try_feature(f, leaf);
    return leaf;
  }

  double least_hessian() const { return options_.min_weight * 0.25; }

  void try_feature(std::size_t feature, OpenLeaf& leaf) const {
    const auto score = [&](double gradient, double hessian) {
      return gradient * gradient / (hessian + options_.l2);
    };
    const double whole = score(leaf.gradient, leaf.hessian);
    double gradient = 0;
    double hessian = 0;
    for (std::size_t b = 0; b < rows_.edges[feature].size(); ++b) {
      gradient += leaf.histogram[feature * kBins + b].gradient;
      hessian += leaf.histogram[feature * kBins + b].hessian;
      if (hessian < least_hessian() || leaf.hessian - hessian < least_hessian()) continue;
      const double gain = score(gradient, hessian) +
                          score(leaf.gradient - gradient, leaf.hessian - hessian) - whole;
      if (gain > leaf.best.gain) leaf.best = {gain, feature, b};
    }
  }

  const BinnedRows& rows_;
  std::size_t num_features_;
  const std::vector<float>& gradients_;
  const std::vector<float>& hessians_;
  const BoostedTrees::TrainOptions& options_;
  std::vector<std::uint32_t> order_;
};

double grown_weight(const std::vector<TreeGrower::GrownNode>& nodes, const std::uint8_t* bins) {
  std::size_t i = 0;
  while (nodes[i].feature >= 0)
    i = bins[nodes[i].feature] <= nodes[i].bin ? nodes[i].left : nodes[i].right;
  return nodes[i].weight;
}

/// The rows a tree is grown on: a share chosen by hash of tree and row.
std::vector<std::uint32_t> sample_rows(std::size_t num_rows, std::size_t tree, double share) {
  std::vector<std::uint32_t> out;
  const auto limit = static_cast<std::uint64_t>(share * 4294967296.0);
  for (std::size_t r = 0; r < num_rows; ++r) {
    std::uint64_t hash = (r + 1) * 0x9E3779B97F4A7C15 + tree * 0xC2B2AE3D27D4EB4F;
    hash = (hash ^ hash >> 31) * 0xBF58476D1CE4E5B9;
    if ((hash >> 32) < limit) out.push_back(static_cast<std::uint32_t>(r));
  }
  return out;
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

void flatten(const std::vector<TreeGrower::GrownNode>& grown, std::size_t index,
             const BinnedRows& rows, std::vector<BoostedTrees::Node>& out) {
  const TreeGrower::GrownNode& node = grown[index];
  const std::size_t here = out.size();
  out.emplace_back();
  if (node.feature < 0) {
    out[here].value = static_cast<float>(node.weight);
    return;
  }
  out[here].feature = static_cast<std::int16_t>(node.feature);
  out[here].value = rows.edges[static_cast<std::size_t>(node.feature)][node.bin];
  flatten(grown, node.left, rows, out);
  out[here].right = static_cast<std::uint32_t>(out.size());
  flatten(grown, node.right, rows, out);
}

template <class T>
bool take_number(std::string_view& text, T& out) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (code != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

/// One tree's nodes from the front of `text`; an explicit stack of nodes whose right child is due.
bool take_tree(std::string_view& text, std::size_t num_features,
               std::vector<BoostedTrees::Node>& out) {
  constexpr std::size_t kMaxNodes = 4096;
  std::vector<std::size_t> due;
  for (;;) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
    if (text.empty() || out.size() >= kMaxNodes) return false;
    BoostedTrees::Node node;
    if (text.front() == '=') {
      text.remove_prefix(1);
      if (!take_number(text, node.value) || !std::isfinite(node.value)) return false;
      out.push_back(node);
      if (due.empty()) return true;
      out[due.back()].right = static_cast<std::uint32_t>(out.size());
      due.pop_back();
      continue;
    }
    int feature = -1;
    if (!take_number(text, feature) || feature < 0 ||
        static_cast<std::size_t>(feature) >= num_features || !take_number(text, node.value))
      return false;
    node.feature = static_cast<std::int16_t>(feature);
    due.push_back(out.size());
    out.push_back(node);
  }
}

}  // namespace

BoostedTrees BoostedTrees::train(std::span<const float> rows, std::size_t num_features,
                                 std::span<const float> labels, std::span<const float> weights,
                                 const TrainOptions& options) {
  const std::size_t num_rows = labels.size();
  SX_CHECK(num_rows > 0 && rows.size() == num_rows * num_features && weights.size() == num_rows,
           "{} values, {} features, {} labels, {} weights", rows.size(), num_features, num_rows,
           weights.size());
  BoostedTrees model;
  model.num_features_ = num_features;
  double positive = 0;
  double total = 0;
  for (std::size_t r = 0; r < num_rows; ++r) {
    positive += labels[r] * weights[r];
    total += weights[r];
  }
  const double share = std::clamp(positive / std::max(total, 1e-9), 0.001, 0.999);
  model.bias_ = std::log(share / (1 - share));
  const BinnedRows binned = bin_rows(rows, num_features, num_rows);
  std::vector<float> scores(num_rows, static_cast<float>(model.bias_));
  std::vector<float> gradients(num_rows);
  std::vector<float> hessians(num_rows);
  for (std::size_t t = 0; t < options.trees; ++t) {
    for (std::size_t r = 0; r < num_rows; ++r) {
      const double p = logistic(scores[r]);
      gradients[r] = static_cast<float>((p - labels[r]) * weights[r]);
      hessians[r] = static_cast<float>(std::max(p * (1 - p), 1e-4) * weights[r]);
    }
    TreeGrower grower(binned, gradients, hessians, options,
                      sample_rows(num_rows, t, options.sample));
    const auto grown = grower.grow();
    for (std::size_t r = 0; r < num_rows; ++r)
      scores[r] += static_cast<float>(grown_weight(grown, &binned.bins[r * num_features]));
    model.trees_.emplace_back();
    flatten(grown, 0, binned, model.trees_.back());
  }
  return model;
}

double BoostedTrees::predict(std::span<const float> row) const {
  SX_CHECK(row.size() == num_features_, "{} features, the model has {}", row.size(), num_features_);
  double score = bias_;
  for (const std::vector<Node>& tree : trees_) {
    std::size_t i = 0;
    while (tree[i].feature >= 0)
      i = row[static_cast<std::size_t>(tree[i].feature)] <= tree[i].value ? i + 1 : tree[i].right;
    score += tree[i].value;
  }
  return logistic(score);
}

std::string BoostedTrees::to_text() const {
  std::string out = fmt::format("sxtrees 1 {} {} {}\n", trees_.size(), num_features_, bias_);
  for (const std::vector<Node>& tree : trees_) {
    for (std::size_t i = 0; i < tree.size(); ++i) {
      if (i > 0) out += ' ';
      out += tree[i].feature < 0 ? fmt::format("={:.4g}", tree[i].value)
                                 : fmt::format("{} {}", tree[i].feature, tree[i].value);
    }
    out += '\n';
  }
  return out;
}

Result<BoostedTrees> BoostedTrees::from_text(std::string_view text) {
  const auto corrupt = [](const char* what) {
    return Error{ErrorKind::kCorrupt, what, "model of boosted trees"};
  };
  constexpr std::string_view kMagic = "sxtrees 1";
  if (!text.starts_with(kMagic)) return corrupt("it does not begin with \"sxtrees 1\"");
  text.remove_prefix(kMagic.size());
  BoostedTrees model;
  std::size_t trees = 0;
  if (!take_number(text, trees) || !take_number(text, model.num_features_) ||
      !take_number(text, model.bias_) || trees > 100000 || model.num_features_ > 10000)
    return corrupt("its first line has no numbers of trees and features");
  for (std::size_t t = 0; t < trees; ++t) {
    model.trees_.emplace_back();
    if (!take_tree(text, model.num_features_, model.trees_.back()))
      return corrupt("a tree is cut or names a feature that is not there");
  }
  return model;
}

}  // namespace sx
