#pragma once

#include <vector>

#include "sextant/base/fs.h"
#include "sextant/crawl/crawl_options.h"
#include "sextant/recipe/command_line.h"

namespace sx {

/// The plain options of the crawl library from the recipe's group `crawl`.
CrawlOptions crawl_options(const Recipe& recipe);

/// `sextant crawl inspect FILE`: a line per record, or one record at a chosen stage.
int run_crawl_inspect(const Invocation& invocation);

/// `sextant crawl --trace-doc ID`: what each step did to the record with that id (32 hex digits, as
/// documents carry it, or the WARC-Record-ID).
int run_trace_doc(const Invocation& invocation, const std::vector<fs::path>& inputs);

}  // namespace sx
