#include "sextant/data/megatron_dataset.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"
#include "sextant/base/thread_pool.h"
#include "sextant/data/index_cache.h"

namespace sx {

namespace {

constexpr std::array<const char*, 3> kSplitNames{"train", "valid", "test"};

/// An opened prefix: its sequences and what a cache remembers of its files.
struct OpenedPrefix {
  std::shared_ptr<const Sequences> sequences;
  nlohmann::ordered_json origin;  ///< null when it is no pair of files: no cache then
};

std::int64_t modified_ns(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return 0;
  return info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
}

Result<OpenedPrefix> open_prefix(const MegatronConfig& config, const std::string& path) {
  if (config.open_other) {
    SX_TRY(std::shared_ptr<const Sequences> other, config.open_other(path));
    if (other) return OpenedPrefix{std::move(other), nullptr};
  }
  SX_TRY(IndexedDataset pair, IndexedDataset::open(path));
  nlohmann::ordered_json origin{{"idx_bytes", pair.idx_bytes()},
                                {"bin_bytes", pair.bin_bytes()},
                                {"bin_modified_ns", modified_ns(pair.prefix() + ".bin")},
                                {"idx_xxh3", hex64(pair.idx_hash())}};
  SX_TRY(auto sequences, make_indexed_sequences(std::move(pair)));
  return OpenedPrefix{std::move(sequences), std::move(origin)};
}

std::uint64_t ceil_share(std::uint64_t size, double weight) {
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(size) * weight));
}

std::uint64_t with_surplus(std::uint64_t size, double surplus) {
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(size) * (1 + surplus)));
}

/// Runs `body(i)` for all i on up to `threads` threads; the error of the lowest i that has one.
Result<void> for_each_prefix(std::size_t count, int threads,
                             const std::function<Result<void>(std::size_t)>& body) {
  std::vector<Result<void>> results(count);
  const auto workers = std::min<std::size_t>(count, static_cast<std::size_t>(std::max(threads, 1)));
  if (workers <= 1) {
    for (std::size_t i = 0; i < count; ++i) SX_TRY_VOID(body(i));
    return {};
  }
  ThreadPool pool(workers);
  pool.parallel_for(count, [&](std::size_t i) { results[i] = body(i); });
  for (Result<void>& result : results) {
    if (!result.ok()) return std::move(result).error();
  }
  return {};
}

/// A blend's arrays from a cache that another program made: every place counts its member's samples
/// up from 0. (Which member comes when is what the cache is read for.)
Result<void> check_blend_arrays(const NpyArray& datasets, const NpyArray& samples,
                                std::uint64_t size, const std::vector<std::uint64_t>& lengths) {
  const auto refuse = [](std::string message) {
    return Error{ErrorKind::kCorrupt, std::move(message), "index cache"};
  };
  if (datasets.type() != NpyType::kInt16 || samples.type() != NpyType::kInt64 ||
      datasets.rows() != size || samples.rows() != size ||
      datasets.columns() + samples.columns() != 0) {
    return refuse(fmt::format("arrays of {} and {} places instead of {}", datasets.rows(),
                              samples.rows(), size));
  }
  std::vector<std::uint64_t> next(lengths.size(), 0);
  for (std::uint64_t t = 0; t < size; ++t) {
    const std::int64_t member = datasets[t];
    const auto i = static_cast<std::size_t>(member);
    if (member < 0 || i >= lengths.size() || next[i] >= lengths[i] ||
        samples[t] != static_cast<std::int64_t>(next[i]++)) {
      return refuse(fmt::format("place {} is sample {} of member {}", t, samples[t], member));
    }
  }
  return {};
}

}  // namespace

/// Builds the splits of one configuration; prefixes are opened once and shared by splits.
class MegatronBuilder {
 public:
  using Sizes = std::array<std::optional<std::uint64_t>, 3>;
  MegatronBuilder(const MegatronConfig& config, const Sizes& sizes, std::array<bool, 3> wanted)
      : config_(config), sizes_(sizes), wanted_(wanted) {}

  Result<MegatronSplits> build() {
    SX_CHECK(config_.seq_len > 0, "samples of 0 tokens");
    if (!config_.per_split) {
      SX_TRY(split_, parse_megatron_split(config_.split));
      for (std::size_t s = 0; s < 3; ++s) wanted_[s] = wanted_[s] && split_->bounds[s].has_value();
    } else {
      for (std::size_t s = 0; s < 3; ++s) {
        wanted_[s] = wanted_[s] && (*config_.per_split)[s].has_value();
      }
    }
    SX_TRY_VOID(open_prefixes());
    MegatronSplits splits;
    for (std::size_t s = 0; s < 3; ++s) {
      if (!wanted_[s]) continue;
      SX_TRY(splits[s], build_split(s));
    }
    return splits;
  }

 private:
  const MegatronBlend& blend_of(std::size_t s) const {
    return config_.per_split ? *(*config_.per_split)[s] : config_.blend;
  }

  Result<void> open_prefixes() {
    std::vector<std::string> paths;
    for (std::size_t s = 0; s < 3; ++s) {
      if (!wanted_[s]) continue;
      const MegatronBlend& blend = blend_of(s);
      if (blend.paths.empty()) return Error{ErrorKind::kInvalid, "no data path", "data.paths"};
      if (blend.weights && blend.weights->size() != blend.paths.size()) {
        return Error{
            ErrorKind::kInvalid,
            fmt::format("{} weights for {} paths", blend.weights->size(), blend.paths.size()),
            "data.blend"};
      }
      for (const std::string& path : blend.paths) {
        if (opened_.emplace(path, OpenedPrefix{}).second) paths.push_back(path);
      }
    }
    return for_each_prefix(paths.size(), config_.threads, [&](std::size_t i) -> Result<void> {
      SX_TRY(opened_.at(paths[i]), open_prefix(config_, paths[i]));
      return {};
    });
  }

  Result<std::shared_ptr<const MegatronDataset>> build_split(std::size_t s) {
    const MegatronBlend& blend = blend_of(s);
    const bool alone = blend.paths.size() == 1 && (!blend.weights || config_.per_split);
    std::shared_ptr<MegatronDataset> dataset(new MegatronDataset);
    dataset->config_ = config_;
    dataset->split_ = s;
    dataset->requested_ = sizes_[s];
    if (alone) {
      SX_TRY(auto member, build_member(s, blend.paths[0], sizes_[s]));
      dataset->description_ =
          IndexCache(cache_key(s, "GPTDataset", member->options().identity, {})).description();
      dataset->members_.push_back(std::move(member));
      return std::shared_ptr<const MegatronDataset>(std::move(dataset));
    }
    if (blend.weights && !sizes_[s]) {
      return Error{ErrorKind::kInvalid,
                   fmt::format("the {} part has weights and no number of samples to share out",
                               kSplitNames[s]),
                   "data.blend without a size"};
    }
    std::vector<double> weights;
    if (blend.weights) weights = numpy_normalize(*blend.weights);
    dataset->members_.resize(blend.paths.size());
    SX_TRY_VOID(
        for_each_prefix(blend.paths.size(), config_.threads, [&](std::size_t i) -> Result<void> {
          std::optional<std::uint64_t> request;
          if (!weights.empty()) {
            request = with_surplus(ceil_share(*sizes_[s], weights[i]), config_.surplus);
          }
          SX_TRY(dataset->members_[i], build_member(s, blend.paths[i], request));
          return {};
        }));
    SX_TRY_VOID(build_blend(s, weights, *dataset));
    return std::shared_ptr<const MegatronDataset>(std::move(dataset));
  }

  /// The blend's arrays; `weights` normalised once, or empty: by length.
  Result<void> build_blend(std::size_t s, const std::vector<double>& weights,
                           MegatronDataset& dataset) {
    std::vector<std::uint64_t> lengths;
    for (const auto& member : dataset.members_) lengths.push_back(member->size());
    const std::uint64_t all = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
    std::optional<std::uint64_t> size;
    std::vector<double> shares;
    if (!weights.empty()) {
      size = 0;
      for (const double weight : weights) *size += ceil_share(*sizes_[s], weight);
      shares = numpy_normalize(weights);
    } else if (sizes_[s]) {
      size = std::min(*sizes_[s], all);
      shares = numpy_normalize(std::vector<double>(lengths.begin(), lengths.end()));
    }
    dataset.weights_ = size ? nlohmann::ordered_json(shares) : nlohmann::ordered_json(lengths);
    nlohmann::ordered_json identity{{"class", "BlendedDataset"}};
    identity["datasets"] = nlohmann::ordered_json::array();
    for (const auto& member : dataset.members_) {
      identity["datasets"].push_back(member->options().identity);
    }
    identity["split"] = kSplitNames[s];
    identity["weights"] = dataset.weights_;
    identity["size"] = size ? nlohmann::ordered_json(*size) : nlohmann::ordered_json(nullptr);
    const auto build = [&]() -> Result<std::vector<NpyArray>> {
      Result<MegatronBlendIndex> made = size ? blend_greedy(shares, *size, config_.rounding)
                                             : blend_exhaustive(lengths, config_.rounding);
      if (!made.ok()) return std::move(made).error();
      SX_TRY_VOID(check_room(s, made->counts(lengths.size()), dataset));
      return std::vector<NpyArray>{NpyArray::from(std::move(made->dataset_index)),
                                   NpyArray::from(std::move(made->dataset_sample_index))};
    };
    const IndexCache cache(
        cache_key(s, "BlendedDataset", identity, {"dataset_index", "dataset_sample_index"}));
    dataset.description_ = cache.description();
    std::vector<NpyArray> arrays;
    if (config_.cache.empty() || !config_.use_cache) {
      SX_TRY(arrays, build());
    } else {
      const nlohmann::ordered_json origin{{"fused", config_.rounding == BlendRounding::kFused},
                                          {"lengths", lengths}};
      const auto accept = [&](const IndexCache::Entry& entry) -> Result<void> {
        if (entry.origin &&
            (entry.origin->value("fused", nlohmann::ordered_json()) != origin["fused"] ||
             entry.origin->value("lengths", nlohmann::ordered_json()) != origin["lengths"])) {
          return Error{ErrorKind::kCorrupt,
                       "made of members of other lengths, or rounded otherwise", entry.base};
        }
        return check_blend_arrays(entry.arrays[0], entry.arrays[1], size.value_or(all), lengths);
      };
      SX_TRY(arrays, cache.load_or_build(accept, build, origin));
    }
    dataset.dataset_index_ = arrays[0];
    dataset.dataset_sample_index_ = arrays[1];
    return {};
  }

  Result<void> check_room(std::size_t s, const std::vector<std::uint64_t>& taken,
                          const MegatronDataset& dataset) const {
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const GptDataset& member = *dataset.members_[i];
      if (taken[i] <= member.size()) continue;
      const std::uint64_t asked = member.options().spec.num_samples.value_or(member.size());
      const double needed =
          std::ceil(1e4 * (static_cast<double>(taken[i]) /
                               static_cast<double>(std::max<std::uint64_t>(asked, 1)) *
                               (1 + config_.surplus) -
                           1)) /
          1e4;
      return Error{
          ErrorKind::kInvalid,
          fmt::format("the {} blend takes {} samples of {}, which has {}; a data.surplus of "
                      "{} gives it more",
                      kSplitNames[s], taken[i], member.options().path, member.size(),
                      std::max(needed, 2 * config_.surplus)),
          "data.surplus"};
    }
    return {};
  }

  Result<std::shared_ptr<const GptDataset>> build_member(std::size_t s, const std::string& path,
                                                         std::optional<std::uint64_t> request) {
    const OpenedPrefix& opened = opened_.at(path);
    GptDataset::Options options;
    options.path = path;
    options.split = kSplitNames[s];
    const std::uint64_t count = opened.sequences->lengths().size();
    const auto [first, last] =
        split_ ? split_->range(s, count) : std::pair<std::uint64_t, std::uint64_t>{0, count};
    options.spec = {.first_sequence = first,
                    .last_sequence = last,
                    .num_samples = request,
                    .seq_len = config_.seq_len,
                    .seed = config_.seed,
                    .extra_token = config_.extra_token,
                    .drop_last = s != 1 || config_.drop_last_valid};
    nlohmann::ordered_json& identity = options.identity;
    identity = {{"class", "GPTDataset"}, {"dataset_path", path}};
    identity["num_samples"] =
        request ? nlohmann::ordered_json(*request) : nlohmann::ordered_json(nullptr);
    identity["index_split"] = kSplitNames[s];
    identity["random_seed"] = config_.seed;
    identity["sequence_length"] = config_.seq_len;
    identity["split"] =
        split_ ? nlohmann::ordered_json(config_.split) : nlohmann::ordered_json(nullptr);
    identity["split_matrix"] = split_ ? split_->matrix_json() : nlohmann::ordered_json(nullptr);
    identity["tokenizer"] = config_.tokenizer;
    if (!opened.origin.is_null() && config_.use_cache) {
      options.origin = opened.origin;
      options.cache = !config_.cache.empty() ? config_.cache
                                             : std::filesystem::path(dataset_prefix(path)) /
                                                   "cache" / "GPTDataset_indices";
    }
    return GptDataset::open(opened.sequences, std::move(options));
  }

  IndexCache::Key cache_key(std::size_t s, const char* class_name, nlohmann::ordered_json identity,
                            std::vector<std::string> names) const {
    return {config_.cache, class_name, kSplitNames[s], std::move(identity), std::move(names)};
  }

  const MegatronConfig& config_;
  Sizes sizes_;
  std::array<bool, 3> wanted_;
  std::optional<MegatronSplit> split_;
  std::map<std::string, OpenedPrefix> opened_;
};

Result<MegatronDataset::Place> MegatronDataset::at(std::uint64_t k) const {
  SX_CHECK(k < size(), "sample {} of {}", k, size());
  if (!blended()) return Place{0, k};
  const std::int64_t member = dataset_index_[k];
  const std::int64_t sample = dataset_sample_index_[k];
  if (member < 0 || static_cast<std::size_t>(member) >= members_.size() || sample < 0 ||
      static_cast<std::uint64_t>(sample) >= members_[static_cast<std::size_t>(member)]->size()) {
    return Error{ErrorKind::kCorrupt,
                 fmt::format("place {} of the blend is sample {} of member {}, which is not there",
                             k, sample, member),
                 "index cache"};
  }
  return Place{static_cast<std::uint32_t>(member), static_cast<std::uint64_t>(sample)};
}

Result<std::shared_ptr<const MegatronDataset>> MegatronDataset::with_samples(
    std::optional<std::uint64_t> samples) const {
  std::array<std::optional<std::uint64_t>, 3> sizes;
  sizes[split_] = samples;
  std::array<bool, 3> wanted{};
  wanted[split_] = true;
  SX_TRY(MegatronSplits splits, open_megatron_datasets(config_, sizes, wanted));
  return splits[split_];
}

Result<MegatronSplits> open_megatron_datasets(
    const MegatronConfig& config, const std::array<std::optional<std::uint64_t>, 3>& sizes,
    const std::array<bool, 3>& wanted) {
  return MegatronBuilder(config, sizes, wanted).build();
}

}  // namespace sx
