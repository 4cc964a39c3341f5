#pragma once

#include "sextant/recipe/command_line.h"

namespace sx {

/// `sextant crawl apply FN`: one function over JSON lines on standard input, one result line each.
int run_crawl_apply(const Invocation& invocation);

}  // namespace sx
