#pragma once

#include <cstdint>
#include <vector>

#include "sextant/data/gpt_dataset.h"

namespace sx::testing {

/// Tokens of sample k as 64-bit numbers, padded to the full length.
inline std::vector<std::int64_t> padded_sample(const GptDataset& dataset, std::uint64_t k,
                                               std::int64_t pad) {
  std::vector<std::int32_t> tokens(dataset.sample_tokens());
  const std::uint64_t count =
      dataset.read(dataset.pieces(dataset.row_of(k).value()).value(), tokens).value();
  std::vector<std::int64_t> wide(tokens.begin(),
                                 tokens.begin() + static_cast<std::ptrdiff_t>(count));
  wide.resize(dataset.sample_tokens(), pad);
  return wide;
}

}  // namespace sx::testing
