#pragma once

#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/crawl/extract/content_training.h"

namespace sx {

/// The pages of a folder of extraction benchmarks, as far as its parts are there: scrapinghub
/// (html/*.html.gz, ground-truth.json), wcxb (dev/html, dev/ground-truth), trafilatura
/// (evaldata.json, tests/), magic-html ({article,forum}/htmls, base.json.gz). In the order of set
/// and id. Errors: kNotFound when none is there, kCorrupt.
Result<std::vector<LabelledPage>> read_labelled_pages(const fs::path& folder);

}  // namespace sx
