#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sextant/base/result.h"

namespace sx {

/// The order in which Megatron-LM draws from several datasets (`helpers.cpp`), bit for bit.
struct MegatronBlendIndex {
  std::vector<std::int16_t> dataset_index;         ///< which dataset place t is drawn from
  std::vector<std::int64_t> dataset_sample_index;  ///< which of its samples: 0, 1, 2 ...
  std::vector<std::uint64_t> counts(std::size_t num_datasets) const;
};

/// How `w * t - count` is rounded: twice, as x86-64 builds of Megatron-LM do, or once, as builds
/// whose compiler joins product and difference (the published wheel for aarch64). The two give
/// different orders (0.5, 0.3, 0.2 part at place 10).
enum class BlendRounding { kSeparate, kFused };
/// Instructions the search may use. All give equal orders.
enum class BlendLevel { kScalar, kAvx2, kAvx512 };
BlendLevel best_blend_level();

/// Place t goes to the first dataset that maximises w_i * max(t, 1) - (places it has). O(size x
/// datasets). `weights` are used as they are (normalised by the caller). Errors: kInvalid unless
/// all weights are finite and above 0 and there are 1 to 32766 of them.
Result<MegatronBlendIndex> blend_greedy(std::span<const double> weights, std::uint64_t size,
                                        BlendRounding rounding = BlendRounding::kSeparate);
Result<MegatronBlendIndex> blend_greedy(std::span<const double> weights, std::uint64_t size,
                                        BlendRounding rounding, BlendLevel level);

/// The same rule with w_i = sizes_i / sum; a dataset that gave all of its samples no longer
/// competes, and the order ends when all did. Errors: kInvalid for no or too many datasets.
Result<MegatronBlendIndex> blend_exhaustive(std::span<const std::uint64_t> sizes,
                                            BlendRounding rounding = BlendRounding::kSeparate);

}  // namespace sx
