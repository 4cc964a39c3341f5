#pragma once

#include "sextant/recipe/command_line.h"

namespace sx {

/// `sextant crawl train extract DATA --to MODEL`: trains the content model on labelled pages.
int run_crawl_train(const Invocation& invocation);

/// `sextant crawl score extraction DATA [--folds K]`: scores on labelled pages, each benchmark by
/// its own measure; with folds, every page by a model that saw no page of its site.
int run_crawl_score(const Invocation& invocation);

}  // namespace sx
