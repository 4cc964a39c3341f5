#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "sextant/dist/collectives.h"

namespace sx::detail {

/// Which vector instructions a fold uses. All give the same bits.
enum class Isa : std::uint8_t { kBase, kAvx2, kAvx512 };
/// The widest one that this processor has.
Isa best_isa();

/// How results are written: kCached as any store; kStream past the caches, for outputs that are
/// larger than these and lie apart from the inputs.
enum class StoreMode : std::uint8_t { kCached, kStream };

/// outs[k][i] = inputs[0][i] op inputs[1][i] op ... in that order, beginning with inputs[0]'s
/// value, for every output k.
///
/// 16-bit floats accumulate in fp32 with one final rounding to nearest even; fp32 in fp32, fp64 in
/// fp64; integers wrap. NaN is handed on from any input. Outputs may be any of the inputs
/// (kCached). One pass: each input element is read once and each output element written once.
void fold(at::ScalarType dtype, ReduceOp op, std::span<const std::byte* const> inputs,
          std::span<std::byte* const> outs, std::int64_t numel, StoreMode mode = StoreMode::kCached,
          Isa isa = best_isa());

/// outs[k][0, bytes) = source[0, bytes) for every output k that is not `source` itself.
void copy_to_all(const std::byte* source, std::span<std::byte* const> outs, std::int64_t bytes,
                 StoreMode mode);

}  // namespace sx::detail
