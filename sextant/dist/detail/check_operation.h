#pragma once

#include "sextant/dist/collectives.h"
#include "sextant/dist/detail/transport.h"

namespace sx::detail {

/// Whether `ReduceOp`s are defined for the dtype at all (bool: only kMax and kMin).
bool is_reducible(at::ScalarType dtype);

/// Checks what a call must fulfil by itself (tensors, dtypes, counts, roots, overlaps) and fills in
/// even counts.
/// Errors: ContractError naming call, unit and both numbers.
void check_operation(Operation& operation, const GroupInfo& group,
                     const Capabilities& capabilities);

}  // namespace sx::detail
