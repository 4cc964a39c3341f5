#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/mesh/unit_layout.h"
#include "sextant/shape/inventory.h"

namespace sx {

/// The presets of data parallelism, as recipes name them (`parallelism.zero`).
enum class DpPreset : std::uint8_t { kDdp, kZero1, kZero2, kFsdp1, kFsdp2 };
const char* to_string(DpPreset preset);
std::optional<DpPreset> parse_dp_preset(std::string_view name);

/// When a unit's whole parameters are given back.
enum class Release : std::uint8_t {
  kAfterUse,       ///< after forward and after backward
  kAfterBackward,  ///< kept between forward and backward
  kAfterStep,      ///< kept over all microbatches of a step
  kKeepShard,      ///< after forward to 1/`keep_ways`, kept among neighbours
  kFits,           ///< kept between forward and backward while `keep_bytes` last, last units first
};

enum class MicrobatchSum : std::uint8_t { kPreset, kLocal, kReduced };

/// Bytes of one element, by use.
struct ItemBytes {
  std::int64_t param = 4;    ///< gathered and computed with
  std::int64_t reduce = 4;   ///< gradients on the wire
  std::int64_t main = 4;     ///< masters and main gradients
  std::int64_t moments = 8;  ///< optimizer state beside the master: two fp32 for Adam
};

/// What differs for units whose name matches; unset fields are the choice's.
struct DpUnitChoice {
  std::string pattern;  ///< shell pattern: "layers.*"
  std::optional<DpPreset> preset{};
  std::optional<LayoutKind> layout{};
  std::optional<Release> release{};
  std::int64_t keep_ways = 0;   ///< with `release`
  std::int64_t keep_bytes = 0;  ///< with `release`
  std::optional<MicrobatchSum> sum{};
  std::optional<std::int64_t> param_bytes{}, reduce_bytes{}, main_bytes{};
  std::optional<bool> a2a_wire{};
};

/// What of data parallelism decides memory and traffic: R replicas of W shards.
struct DpChoice {
  DpPreset preset = DpPreset::kFsdp2;
  std::int64_t num_replicas = 1;
  std::int64_t num_shards = 1;
  std::optional<LayoutKind> layout{};  ///< unset: the preset's own
  LayoutCompat compat = LayoutCompat::kSextant;
  ItemBytes bytes{};
  std::int64_t microbatches = 1;
  MicrobatchSum sum = MicrobatchSum::kPreset;
  Release release = Release::kAfterUse;
  std::int64_t keep_ways = 0;
  std::int64_t keep_bytes = 0;
  bool optimizer_over_replicas = false;
  bool flat_order = false;           ///< one fold over all R * W ranks
  bool a2a_wire = false;             ///< 16-bit gradients exchanged and folded in fp32
  bool overlap_reduce = true;        ///< a reduction is finished when the next one starts
  bool overlap_param_gather = true;  ///< updated replicas are waited for when they are used
  std::int64_t prefetch_bytes = -1;  ///< -1: two of the largest units; 0: none
  std::int64_t unit_cap = std::int64_t{2} << 30;
  std::int64_t bucket_elements = 0;
  std::int64_t num_buckets = 0;
  bool pad_for_bus = false;
  std::int64_t block_elements = 0;
  std::vector<DpUnitChoice> overrides{};
};

/// Whether parameters are sharded while training (on one shard nothing can be), whether gradients
/// and optimizer state are, whether microbatches are summed before ranks.
bool params_sharded(const DpChoice& choice);
bool optimizer_sharded(const DpChoice& choice);
bool sums_locally(const DpChoice& choice);

/// Parameters that are used together, in registration order.
struct DpUnit {
  std::string name;
  std::vector<UnitParam> params;
};
/// Units of a decoder as the trainer cuts it, in the order in which forward runs them: embeddings,
/// layers, then the final norm with the head. A tied head uses the embedding's unit twice.
std::vector<DpUnit> decoder_units(const ModelShape& shape);

/// One buffer of the plan.
struct DpBuffer {
  std::string name;
  UnitLayout layout;
  std::vector<std::size_t> units;  ///< that use it: first those whose parameters lie in it
  DpChoice choice;                 ///< of its units, overrides applied

  /// Elements of the ranges that a rank's collectives and its optimizer work on.
  std::int64_t chunk() const;
  std::int64_t own() const;
};

/// A model's buffers under a choice: the engine makes the same ones from the modules.
struct DpPlan {
  DpChoice choice;
  std::vector<DpUnit> units;
  std::vector<DpBuffer> buffers;  ///< in the order in which backward completes their gradients
};

/// The choice for one unit.
DpChoice choice_of(const DpChoice& choice, const std::string& unit);

/// `tied`: pairs (unit that owns, unit that uses too). Errors: ContractError for degrees below 1
/// and a layout that the preset cannot use.
DpPlan make_dp_plan(std::vector<DpUnit> units, const DpChoice& choice,
                    const std::vector<std::pair<std::size_t, std::size_t>>& tied = {});

/// Units of a decoder under a choice, with the head tied where the shape says so.
DpPlan make_decoder_plan(const ModelShape& shape, const DpChoice& choice);

}  // namespace sx
