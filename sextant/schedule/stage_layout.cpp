#include "sextant/schedule/stage_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

namespace sx {
namespace {

constexpr std::size_t kMostParts = 1'000'000;

Error bad_layout(std::string message) {
  return {
      .kind = ErrorKind::kInvalid, .message = "stage layout: " + std::move(message), .where = {}};
}

/// Megatron-LM's grammar, with groups and repeats written out: only E, t, m, L and | remain.
class Expander {
 public:
  explicit Expander(std::string_view text) : text_(text) {}

  Result<std::string> run() {
    SX_TRY(std::string out, sequence(0));
    if (at_ < text_.size()) return bad_layout(fmt::format("')' without '(' at character {}", at_));
    return out;
  }

 private:
  Result<std::string> sequence(int depth) {
    if (depth > 64) return bad_layout("more than 64 groups in each other");
    std::string out;
    while (at_ < text_.size() && text_[at_] != ')') {
      const char c = text_[at_];
      if (c == ',' || c == ' ') {
        ++at_;
        continue;
      }
      SX_TRY(const std::string item, one(depth));
      SX_TRY(const std::size_t times, repeat());
      if (times != 0 && item.size() * times > kMostParts - std::min(kMostParts, out.size()))
        return bad_layout(fmt::format("more than {} parts", kMostParts));
      for (std::size_t i = 0; i < times; ++i) out += item;
    }
    return out;
  }

  Result<std::string> one(int depth) {
    const char c = text_[at_];
    if (c == '(') {
      const std::size_t open = at_++;
      SX_TRY(std::string inner, sequence(depth + 1));
      if (at_ == text_.size())
        return bad_layout(fmt::format("'(' at character {} stays open", open));
      ++at_;
      return inner;
    }
    if (std::string_view("EtmL|").find(c) == std::string_view::npos) {
      return bad_layout(
          fmt::format("'{}' at character {}; known are E t m L | ( ) * and numbers "
                      "behind *",
                      c, at_));
    }
    ++at_;
    return std::string(1, c);
  }

  Result<std::size_t> repeat() {
    if (at_ == text_.size() || text_[at_] != '*') return std::size_t{1};
    std::size_t times = 0;
    const char* begin = text_.data() + at_ + 1;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), times);
    if (error != std::errc{} || times > kMostParts)
      return bad_layout(
          fmt::format("no number up to {} behind '*' at character {}", kMostParts, at_));
    at_ = static_cast<std::size_t>(end - text_.data());
    return times;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Result<std::vector<StageContents>> from_parts(const std::string& parts) {
  std::vector<StageContents> stages(1);
  std::int64_t layers = 0;
  int embeddings = 0, losses = 0;
  for (const char c : parts) {
    if (c == '|') {
      stages.push_back({.first_layer = layers});
      continue;
    }
    StageContents& stage = stages.back();
    if (losses > 0) return bad_layout(fmt::format("'{}' behind the loss", c));
    if (c == 'E' && ++embeddings > 1) return bad_layout("two embeddings");
    if (c == 'E' && (stages.size() > 1 || !stage.empty()))
      return bad_layout("the embedding must be the first part of the first stage");
    if (c != 'E' && embeddings == 0) return bad_layout("the embedding must come first");
    if (c == 't' && std::any_of(stages.begin(), stages.end(),
                                [](const StageContents& s) { return s.mtp_layers > 0; })) {
      return bad_layout("a decoder layer behind a multi-token-prediction layer");
    }
    switch (c) {
      case 'E': stage.embedding = true; break;
      case 't': ++stage.layers, ++layers; break;
      case 'm': ++stage.mtp_layers; break;
      default: stage.loss = true, ++losses; break;
    }
  }
  if (losses == 0) return bad_layout("there is no loss (L)");
  return stages;
}

std::vector<StageContents> from_counts(const std::vector<std::int64_t>& counts,
                                       std::int64_t mtp_layers) {
  std::vector<StageContents> stages;
  std::int64_t layers = 0;
  for (const std::int64_t count : counts) {
    stages.push_back({.first_layer = layers, .layers = count});
    layers += count;
  }
  stages.front().embedding = true;
  stages.back().mtp_layers = mtp_layers;
  stages.back().loss = true;
  return stages;
}

/// Layers by stage: the smallest largest cost, then the smallest sum of squares, then the most
/// layers in front.
std::vector<std::int64_t> balance(const StageLayoutRequest& request) {
  using Cost = std::pair<std::int64_t, double>;  // largest stage, sum of squares
  const auto layers = static_cast<std::size_t>(request.layers);
  const auto stages = static_cast<std::size_t>(request.stages);
  std::vector<std::int64_t> before(layers + 1, 0);  // costs of the layers before
  for (std::size_t i = 0; i < layers; ++i)
    before[i + 1] = before[i] + (request.costs.layers.empty() ? 1 : request.costs.layers[i]);
  const auto cost_of = [&](std::size_t stage, std::size_t begin, std::size_t end) {
    std::int64_t cost = before[end] - before[begin];
    if (stage == 0) cost += request.costs.embedding;
    if (stage + 1 == stages)
      cost += request.costs.loss + request.mtp_layers * request.costs.mtp_layer;
    return cost;
  };
  const Cost none{std::numeric_limits<std::int64_t>::max(), 0};
  // best[s][l]: stages s.. hold the layers l..
  std::vector<std::vector<Cost>> best(stages + 1, std::vector<Cost>(layers + 1, none));
  std::vector<std::vector<std::size_t>> take(stages, std::vector<std::size_t>(layers + 1, 0));
  best[stages][layers] = {0, 0};
  for (std::size_t stage = stages; stage-- > 0;) {
    for (std::size_t begin = 0; begin <= layers; ++begin) {
      for (std::size_t end = layers + 1; end-- > begin;) {
        const Cost& rest = best[stage + 1][end];
        if (rest == none) continue;
        const std::int64_t own = cost_of(stage, begin, end);
        const Cost all{std::max(own, rest.first),
                       static_cast<double>(own) * static_cast<double>(own) + rest.second};
        if (all < best[stage][begin]) {
          best[stage][begin] = all;
          take[stage][begin] = end - begin;
        }
      }
    }
  }
  std::vector<std::int64_t> counts;
  std::size_t begin = 0;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    counts.push_back(static_cast<std::int64_t>(take[stage][begin]));
    begin += take[stage][begin];
  }
  return counts;
}

std::optional<std::vector<std::int64_t>> parse_list(std::string_view text) {
  std::vector<std::int64_t> counts;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at != end) {
    std::int64_t count = 0;
    const auto [next, error] = std::from_chars(at, end, count);
    if (error != std::errc{} || count < 0 || count > static_cast<std::int64_t>(kMostParts))
      return std::nullopt;
    counts.push_back(count);
    at = next;
    if (at == end) return counts;
    if (*at++ != ',') return std::nullopt;
    while (at != end && *at == ' ') ++at;
  }
  return std::nullopt;
}

Result<std::vector<StageContents>> read_layout(const StageLayoutRequest& request) {
  if (request.text == "even" && request.layers % request.stages == 0) {
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(request.stages),
                                           request.layers / request.stages);
    return from_counts(counts, request.mtp_layers);
  }
  if (request.text == "even" || request.text == "auto")
    return from_counts(balance(request), request.mtp_layers);
  if (const auto counts = parse_list(request.text)) return from_counts(*counts, request.mtp_layers);
  SX_TRY(const std::string parts, Expander(request.text).run());
  return from_parts(parts);
}

}  // namespace

Result<std::vector<StageContents>> make_stage_layout(const StageLayoutRequest& request) {
  if (request.layers < 0 || request.stages < 1 || request.mtp_layers < 0)
    return bad_layout(fmt::format("{} layers on {} stages", request.layers, request.stages));
  if (!request.costs.layers.empty() &&
      request.costs.layers.size() != static_cast<std::size_t>(request.layers)) {
    return bad_layout(
        fmt::format("{} costs for {} layers", request.costs.layers.size(), request.layers));
  }
  SX_TRY(std::vector<StageContents> stages, read_layout(request));
  std::int64_t layers = 0, mtp_layers = 0;
  for (const StageContents& stage : stages) {
    layers += stage.layers;
    mtp_layers += stage.mtp_layers;
  }
  if (layers != request.layers)
    return bad_layout(
        fmt::format("it places {} decoder layers, the model has {}", layers, request.layers));
  if (mtp_layers != request.mtp_layers) {
    return bad_layout(fmt::format("it places {} multi-token-prediction layers, the model has {}",
                                  mtp_layers, request.mtp_layers));
  }
  if (request.stages == 1) return from_counts({layers}, mtp_layers);
  if (stages.size() != static_cast<std::size_t>(request.stages))
    return bad_layout(fmt::format("it has {} stages, the mesh {}", stages.size(), request.stages));
  return stages;
}

std::string to_string(const std::vector<StageContents>& stages) {
  std::string text;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (i > 0) text += '|';
    if (stages[i].embedding) text += 'E';
    text.append(static_cast<std::size_t>(stages[i].layers), 't');
    text.append(static_cast<std::size_t>(stages[i].mtp_layers), 'm');
    if (stages[i].loss) text += 'L';
  }
  return text;
}

}  // namespace sx
