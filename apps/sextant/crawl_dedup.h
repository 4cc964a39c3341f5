#pragma once

#include "sextant/recipe/command_line.h"

namespace sx {

/// `sextant crawl dedup KIND FILE... --to DIR`: exact and near-duplicates among plain files.
int run_crawl_dedup(const Invocation& invocation);

}  // namespace sx
