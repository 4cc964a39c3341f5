#pragma once

#include <string>
#include <string_view>

#include "sextant/base/result.h"
#include "sextant/schedule/schedule.h"

namespace sx {

/// The schedule as a table of text, one row a rank: cells as Op::to_string() gives them, an
/// overlapping pair as "(0F4;3B1)OVERLAP_F_B": what PyTorch's pipeline runtime reads and writes.
std::string to_csv(const Schedule& schedule);

/// Reads such a table; empty cells are passed over. Sizes and placement follow from the cells.
/// Errors: kCorrupt with row and cell for text that is no op; kInvalid where no placement has the
/// stages where the rows have them; kLimit for more than 2^24 stages times microbatches.
Result<Schedule> from_csv(std::string_view text, std::string name = "csv");

}  // namespace sx
