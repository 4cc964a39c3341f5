#include "sextant/dist/dist_error.h"

namespace sx {

DistError::DistError(DistFault fault, AxisSet axis, Collective op, std::uint64_t sequence,
                     std::int64_t bytes, Seconds waited, std::int64_t origin_rank,
                     const std::string& message)
    : std::runtime_error(message),
      fault_(fault),
      axis_(axis),
      op_(op),
      sequence_(sequence),
      bytes_(bytes),
      waited_(waited),
      origin_rank_(origin_rank) {}

}  // namespace sx
