#pragma once

#include <string>
#include <vector>

#include "sextant/ckpt/checkpoint.h"
#include "sextant/dist/communicator.h"

namespace sx {

/// What coord 0 found, on every rank: the error's kind and text, or the report without what was
/// removed. Collective.
Result<SaveReport> share_outcome(Result<SaveReport> outcome, const fs::path& path,
                                 Communicator& world);

/// The text of every rank, on every rank, in the order of coords. Collective.
std::vector<std::string> gather_texts(const std::string& own, Communicator& world);

}  // namespace sx
