#pragma once

#include <string>
#include <vector>

#include "sextant/schedule/schedule.h"

namespace sx {

/// What is wrong with a schedule, in words that name rank and op; empty: nothing. Checked before
/// any run, whoever made the schedule:
///  * every stage and microbatch has one F and one B, or one I and one W, on the rank of the stage;
///  * F before its B or I, I before its W, and W in ascending order of microbatches for each stage;
///  * the parameters of a stage are gathered when used, if they are gathered at all, and reduced
///    once, after the last gradient of the stage;
///  * every transfer between ranks has one send and one receive, behind what makes and before what
///    uses it, and in the same order on both sides of each pair of ranks and direction;
///  * it ends, with sends that do not wait and, when `blocking_sends`, with sends that do.
/// At most 20 faults are named, and the number of the others.
std::vector<std::string> validate(const Schedule& schedule, bool blocking_sends = false);

}  // namespace sx
