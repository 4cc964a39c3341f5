#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "sextant/base/result.h"

namespace sx {

/// Everything needed to resume loading: the same on every rank, independent of ranks, microbatches
/// and threads. Equal state and equal data give the equal next global batch, bit for bit. File
/// form: docs/formats/loader_state.md.
struct LoaderState {
  static constexpr int kVersion = 1;

  /// Weights in force from `position` on.
  struct WeightChange {
    std::uint64_t position = 0;
    std::vector<std::uint64_t> weights;
    friend bool operator==(const WeightChange&, const WeightChange&) = default;
  };
  /// Progress of document packing: window number and packs of it already given.
  struct Pack {
    std::uint64_t window = 0;
    std::uint64_t given = 0;
    friend bool operator==(const Pack&, const Pack&) = default;
  };

  std::string mode = "native";  ///< order engine: "native" or "megatron"
  std::string plan_hash;        ///< 32 hex digits: XXH3-128 of the members' description
  std::uint64_t position = 0;   ///< order positions consumed (blocks in unit "block")
  std::uint64_t seed = 0;
  std::string unit = "block";
  std::uint64_t block_tokens = 0;
  std::uint64_t seq_len = 0;
  std::vector<WeightChange> weights_history;
  std::vector<std::pair<std::uint64_t, std::uint64_t>>
      skips;  ///< position ranges [first, last) left out
  Pack pack;
  std::string consumed_hash;  ///< 32 hex digits: running XXH3-128 over the keys consumed
  /// Mode "megatron": samples the order was built for; nothing = all there are.
  std::optional<std::uint64_t> samples;
  std::string torch_version;  ///< only for orders that depend on it; empty = left out

  nlohmann::ordered_json to_json() const;
  /// Errors: kCorrupt for a missing field, wrong type, unknown version or a value outside its
  /// range.
  static Result<LoaderState> from_json(const nlohmann::ordered_json& json);
  /// Errors: as above, and for text that is not JSON.
  static Result<LoaderState> parse(std::string_view text);

  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

}  // namespace sx
