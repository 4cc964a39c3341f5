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
};

enum class MicrobatchSum : std::uint8_t { kPreset, kLocal, kReduced };

/// Bytes of one element, by use.
struct ItemBytes {
  std::int64_t param = 4;    ///< gathered and computed with
  std::int64_t reduce = 4;   ///< gradients on the wire
  std::int64_t main = 4;     ///< masters and main gradients
  std::int64_t moments = 8;  ///< optimizer state beside the master: two fp32 for Adam
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
  bool optimizer_over_replicas = false;
  bool flat_order = false;           ///< one fold over all R * W ranks
  bool a2a_wire = false;             ///< 16-bit gradients exchanged and folded in fp32
  bool overlap_reduce = true;        ///< a reduction is finished when the next one starts
  std::int64_t prefetch_bytes = -1;  ///< -1: two of the largest units; 0: none
  std::int64_t unit_cap = std::int64_t{2} << 30;
  std::int64_t bucket_elements = 0;
  std::int64_t block_elements = 0;
};

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
  std::size_t num_owners = 1;      ///< how many these are; others use a tied parameter
};

/// A model's buffers under a choice: the engine makes the same ones from the modules.
struct DpPlan {
  DpChoice choice;
  bool params_sharded = false;
  bool optimizer_sharded = false;
  bool sum_local = false;  ///< microbatches are summed before they are reduced
  std::vector<DpUnit> units;
  std::vector<DpBuffer> buffers;
  std::vector<std::size_t> reduce_order;  ///< buffers, in the order their gradients are complete

  /// Elements of the ranges of one buffer that this rank's collectives and its optimizer work on.
  std::int64_t chunk(const DpBuffer& buffer) const;
  std::int64_t own(const DpBuffer& buffer) const;
};

/// `tied`: pairs (unit that owns, unit that uses too). Errors: ContractError for degrees below 1
/// and a layout that the preset cannot use.
DpPlan make_dp_plan(std::vector<DpUnit> units, const DpChoice& choice,
                    const std::vector<std::pair<std::size_t, std::size_t>>& tied = {});

}  // namespace sx
