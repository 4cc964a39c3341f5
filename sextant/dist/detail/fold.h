#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "sextant/dist/collectives.h"

namespace sx::detail {

/// out[i] = inputs[0][i] op inputs[1][i] op ... in that order, beginning with inputs[0]'s value.
///
/// 16-bit floats accumulate in fp32 with one final rounding to nearest even; fp32 in fp32, fp64 in
/// fp64; integers wrap. `out` may be any of the inputs. Works in blocks of 16 KiB of accumulators.
void fold(at::ScalarType dtype, ReduceOp op, std::span<const std::byte* const> inputs,
          std::byte* out, std::int64_t numel);

}  // namespace sx::detail
