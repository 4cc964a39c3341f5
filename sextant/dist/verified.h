#pragma once

#include "sextant/dist/communicator.h"

namespace sx {

/// From now on every collective call on this communicator, and on groups made from it later, sends
/// each rank's input to all others with its checksum, compares them where they arrive, and makes
/// the result from them by the same fold: same bits, W times the traffic, nothing overlapped. For
/// hunting bits that flip on the way.
/// Errors (of the calls): DistError (kCorrupted) that names the rank whose input came altered.
void with_verification(Communicator& communicator);

}  // namespace sx
