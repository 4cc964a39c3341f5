#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

/// What one stage holds: `layers` decoder layers from `first_layer` on, counted over the model.
struct StageContents {
  bool embedding = false;
  std::int64_t first_layer = 0;
  std::int64_t layers = 0;
  std::int64_t mtp_layers = 0;  ///< multi-token prediction
  bool loss = false;            ///< final norm, head and loss

  bool empty() const { return !embedding && layers == 0 && mtp_layers == 0 && !loss; }
  friend bool operator==(const StageContents&, const StageContents&) = default;
};

/// What a layer costs, in any unit; the balance that "auto" seeks. Empty `layers`: all cost 1.
struct StageCosts {
  std::vector<std::int64_t> layers;
  std::int64_t embedding = 0;
  std::int64_t mtp_layer = 1;
  std::int64_t loss = 0;
};

struct StageLayoutRequest {
  std::string text = "even";
  std::int64_t layers = 0;
  std::int64_t mtp_layers = 0;
  std::int64_t stages = 1;  ///< virtual ones: ranks times chunks
  StageCosts costs;
};

/// Places the parts of a model on stages. `text` is
///   "even"     the same number of layers on each stage, or "auto" where that does not divide;
///   "auto"     contiguous, with the smallest possible largest stage and then the least unevenness;
///   "4,4,3,5"  layers by stage;
///   a string in Megatron-LM's grammar (--pipeline-model-parallel-layout): E embedding, t decoder
///   layer, m multi-token-prediction layer, L loss, | next stage, (...) group, *n repeat, commas
///   and blanks ignored. Stages may be empty.
/// With one stage every text whose parts are all there is folded into it.
/// Errors: kInvalid for a part that is missing, doubled or out of order (E first, on the first
/// stage; L last, on the last that is not empty), for other numbers of stages or layers than asked,
/// and for text that is none of these.
Result<std::vector<StageContents>> make_stage_layout(const StageLayoutRequest& request);

/// In Megatron-LM's grammar: "Ettt|tt|ttL".
std::string to_string(const std::vector<StageContents>& stages);

}  // namespace sx
