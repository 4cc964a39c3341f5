#include "sextant/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"
#include "sextant/data/demo_text.h"
#include "sextant/data/indexed_dataset.h"
#include "sextant/data/megatron_dataset.h"
#include "sextant/data/text_tokens.h"

namespace sx {

namespace {

constexpr std::uint64_t kDemoSeed = 0;  // the built-in text is the same in every run

std::shared_ptr<const TokenSource> make_demo_source(const Dataset::Options& options) {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> starts;
  for (const std::string& text : demo_documents(kDemoSeed, options.demo_bytes)) {
    starts.push_back(tokens.size());
    if (options.encode) {
      const std::vector<std::int32_t> ids = options.encode(text);
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    } else {
      for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    }
    if (options.eod_id >= 0) tokens.push_back(options.eod_id);
  }
  return make_memory_source(std::move(tokens), std::move(starts));
}

Result<std::shared_ptr<const TokenSource>> open_part(const std::string& path,
                                                     const Dataset::Options& options) {
  SX_TRY(std::shared_ptr<const TokenSource> whole, open_token_source(path, options));
  if (options.part == SplitPart::kAll) {
    if (whole->num_tokens() > 0) return whole;
    return Error{ErrorKind::kInvalid, "holds no token", path};
  }
  SX_TRY(const std::vector<std::uint64_t> parts, parse_split(options.split));
  const auto [first, last] = cut_split(*whole, parts)[static_cast<std::size_t>(options.part)];
  auto part = make_document_range(whole, first, last);
  if (part->num_tokens() > 0) return part;
  return Error{ErrorKind::kInvalid,
               fmt::format("the {} part of split {} is empty: documents {} to {} of {}, {} tokens",
                           to_string(options.part), options.split, first, last,
                           whole->num_documents(), whole->num_tokens()),
               path};
}

}  // namespace

const char* to_string(SplitPart part) {
  switch (part) {
    case SplitPart::kTrain: return "train";
    case SplitPart::kValid: return "valid";
    case SplitPart::kTest: return "test";
    case SplitPart::kAll: return "all";
  }
  return "unknown";
}

Result<std::vector<std::uint64_t>> integer_weights(const std::vector<double>& weights) {
  double largest = 0;
  bool whole = true;
  for (const double weight : weights) {
    if (!(weight >= 0) || !std::isfinite(weight)) {
      return Error{ErrorKind::kInvalid,
                   fmt::format("weight {} is not a finite number >= 0", weight), ""};
    }
    largest = std::max(largest, weight);
    whole = whole && weight == std::floor(weight) && weight <= 2147483648.0;
  }
  if (largest == 0) return Error{ErrorKind::kInvalid, "all weights are 0", ""};
  std::vector<std::uint64_t> scaled;
  for (const double weight : weights) {
    scaled.push_back(
        static_cast<std::uint64_t>(whole ? weight : std::round(weight / largest * 1e9)));
  }
  return scaled;
}

Result<std::shared_ptr<const Dataset>> Dataset::open(const Options& options) {
  if (options.paths.empty()) return Error{ErrorKind::kInvalid, "no data path", "data.paths"};
  if (!options.weights.empty() && options.weights.size() != options.paths.size()) {
    return Error{
        ErrorKind::kInvalid,
        fmt::format("{} weights for {} paths", options.weights.size(), options.paths.size()),
        "data.blend"};
  }
  std::vector<DatasetMember> members;
  std::vector<double> weights = options.weights;
  std::map<std::string, int> seen;
  for (const std::string& path : options.paths) {
    const std::string name = dataset_prefix(path);
    const int repeat = seen[name]++;
    SX_TRY(auto source, open_part(name, options));
    if (options.weights.empty()) weights.push_back(static_cast<double>(source->num_tokens()));
    members.push_back(
        {repeat == 0 ? name : fmt::format("{}#{}", name, repeat), std::move(source), 0});
  }
  SX_TRY(const std::vector<std::uint64_t> whole, integer_weights(weights));
  for (std::size_t i = 0; i < members.size(); ++i) members[i].weight = whole[i];
  auto dataset = std::make_shared<Dataset>();
  dataset->members_ = std::move(members);
  dataset->describe(options.tokenizer_fingerprint);
  return std::shared_ptr<const Dataset>(std::move(dataset));
}

bool is_no_pair(const std::string& path) {
  return path == "demo" || path == "mock" || is_text_path(path);
}

Result<std::shared_ptr<const TokenSource>> open_token_source(const std::string& path,
                                                             const Dataset::Options& options) {
  if (path == "demo") return make_demo_source(options);
  if (path == "mock")
    return make_mock_source(options.seed, options.mock_tokens, options.mock_vocab_size);
  if (is_text_path(path)) return read_text_source(path, options.encode, options.eod_id);
  SX_TRY(IndexedDataset pair, IndexedDataset::open(path));
  return make_indexed_source(std::move(pair));
}

std::shared_ptr<const Dataset> Dataset::from_megatron(std::shared_ptr<const MegatronDataset> order,
                                                      const std::string& tokenizer_fingerprint) {
  auto dataset = std::make_shared<Dataset>();
  std::map<std::string, int> seen;
  for (const auto& member : order->members()) {
    const GptIndexSpec& spec = member->options().spec;
    const std::string& path = member->options().path;
    const int repeat = seen[path]++;
    dataset->members_.push_back(
        {repeat == 0 ? path : fmt::format("{}#{}", path, repeat),
         make_sequence_source(member->sequences(), spec.first_sequence, spec.last_sequence), 1});
  }
  dataset->megatron_ = std::move(order);
  dataset->describe(tokenizer_fingerprint);
  return dataset;
}

std::shared_ptr<const Dataset> Dataset::from_members(std::vector<DatasetMember> members) {
  SX_CHECK(!members.empty(), "a dataset without members");
  auto dataset = std::make_shared<Dataset>();
  dataset->members_ = std::move(members);
  dataset->describe("");
  return dataset;
}

void Dataset::describe(const std::string& tokenizer_fingerprint) {
  std::string all;
  for (const DatasetMember& member : members_) {
    description_.push_back(fmt::format("{} | {} | tokenizer {}", member.path_id,
                                       member.source->fingerprint(), tokenizer_fingerprint));
    all += description_.back() + "\n";
  }
  if (megatron_) {
    const MegatronConfig& config = megatron_->config();
    description_.push_back(fmt::format("megatron | seed {} | {} + {} tokens | weights {}",
                                       config.seed, config.seq_len, config.extra_token ? 1 : 0,
                                       megatron_->weights().dump()));
    all += description_.back() + "\n";
  }
  plan_hash_ = xxh3_128(all).hex();
}

std::uint64_t Dataset::num_tokens() const {
  std::uint64_t tokens = 0;
  for (const DatasetMember& member : members_) tokens += member.source->num_tokens();
  return tokens;
}

}  // namespace sx
