#pragma once

#include <nlohmann/json.hpp>

#include "sextant/crawl/shard_runner.h"
#include "sextant/trace/page.h"

namespace sx {

/// What `crawl --json` prints and summary.json holds: records, damaged, bad_share, pages (reached
/// decoding), documents, kept_share, dropped {reason: count}, dropped_values {reason: {value:
/// count}}, stages [{name, in, kept, dropped, seconds}], languages, charsets, text_bytes, files,
/// outputs, seconds, bytes_in, mb_per_s, conservation.
nlohmann::ordered_json crawl_summary_json(const CrawlSummary& summary);

/// Up to three examples of each reason and of kept pages: {reason: [{url, value, snippet}]}; texts
/// are of the crawled pages and stay in the run folder.
nlohmann::ordered_json crawl_examples_json(const CrawlSummary& summary);

/// report.html from the two JSON trees, so that a run's page can be written again later.
Page make_crawl_page(const PageFacts& facts, const nlohmann::ordered_json& summary,
                     const nlohmann::ordered_json& examples);

}  // namespace sx
