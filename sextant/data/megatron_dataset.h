#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/base/result.h"
#include "sextant/data/blend_megatron.h"
#include "sextant/data/gpt_dataset.h"
#include "sextant/data/megatron_split.h"

namespace sx {

/// What Megatron-LM's `GPTDatasetConfig` and `BlendedMegatronDatasetBuilder` are told.
struct MegatronConfig {
  std::uint64_t seed = 1234;  ///< of every member and split alike; 0 .. 2^32 - 1
  std::uint64_t seq_len = 0;
  MegatronBlend blend;  ///< for all splits, cut by `split`
  std::string split = "969,30,1";
  /// Instead of `blend` and `split`: one blend per split, each taken whole; nothing = no such
  /// split.
  std::optional<std::array<std::optional<MegatronBlend>, 3>> per_split;
  bool extra_token = true;      ///< add_extra_token_to_sequence
  bool drop_last_valid = true;  ///< drop_last_partial_validation_sequence
  double surplus = 0.005;       ///< mid_level_dataset_surplus: room in each member's request
  BlendRounding rounding = BlendRounding::kSeparate;
  /// Folder of the caches; empty = `<prefix>/cache/GPTDataset_indices` for members, none for
  /// blends.
  std::filesystem::path cache;
  bool use_cache = true;  ///< false: nothing is read or written beside the data
  /// The tokenizer's `unique_identifiers`: part of the caches' names, of nothing else.
  nlohmann::ordered_json tokenizer = nlohmann::ordered_json::object();
  /// For paths that are no `.bin/.idx` prefix: their sequences, or null.
  std::function<Result<std::shared_ptr<const Sequences>>(const std::string& path)> open_other;
  int threads = 32;  ///< prefixes opened at once
};

/// One split: a member, or a blend of members. Immutable; threads: safe.
class MegatronDataset {
 public:
  struct Place {
    std::uint32_t member = 0;
    std::uint64_t sample = 0;  ///< of the member, in its shuffled order
    friend bool operator==(const Place&, const Place&) = default;
  };
  std::uint64_t size() const { return blended() ? dataset_index_.rows() : members_[0]->size(); }
  const std::vector<std::shared_ptr<const GptDataset>>& members() const { return members_; }
  bool blended() const { return !weights_.is_null(); }
  /// Errors: kCorrupt for a cache that names a member or sample that is not there.
  Result<Place> at(std::uint64_t k) const;
  /// The description that names its cache.
  const std::string& description() const { return description_; }
  /// As given; null without a blend.
  const nlohmann::ordered_json& weights() const { return weights_; }
  const MegatronConfig& config() const { return config_; }
  /// Samples asked for; nothing = all there are.
  const std::optional<std::uint64_t>& requested() const { return requested_; }
  /// The same split built for another number of samples.
  Result<std::shared_ptr<const MegatronDataset>> with_samples(
      std::optional<std::uint64_t> samples) const;
  const NpyArray& dataset_index() const { return dataset_index_; }                ///< blended only
  const NpyArray& dataset_sample_index() const { return dataset_sample_index_; }  ///< blended only

 private:
  friend class MegatronBuilder;
  MegatronDataset() = default;
  std::vector<std::shared_ptr<const GptDataset>> members_;
  nlohmann::ordered_json weights_;  ///< as the description shows them; null = one member, no blend
  std::string description_;
  MegatronConfig config_;
  std::size_t split_ = 0;
  std::optional<std::uint64_t> requested_;
  NpyArray dataset_index_;
  NpyArray dataset_sample_index_;
};

using MegatronSplits = std::array<std::shared_ptr<const MegatronDataset>, 3>;

/// Train, valid and test for the numbers of samples asked for (nothing = all there are, once); null
/// where the split has no part, or `wanted` says no.
///
/// Errors: kInvalid when a part has no token (names part and prefix), for weights without a size,
/// and when a blend takes more from a member than it has (names it, both counts and the surplus
/// that would do); those of the files and of parsing.
Result<MegatronSplits> open_megatron_datasets(
    const MegatronConfig& config, const std::array<std::optional<std::uint64_t>, 3>& sizes,
    const std::array<bool, 3>& wanted = {true, true, true});

}  // namespace sx
