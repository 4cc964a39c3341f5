#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sextant/crawl/charset.h"
#include "sextant/crawl/minhash_dedup.h"
#include "sextant/crawl/pii.h"
#include "sextant/crawl/policy.h"
#include "sextant/text/html_parser.h"

namespace sx {

/// Which counts of rules are stored beside the documents.
enum class Annotate { kOff, kPolicy, kAll };

/// What of a page is its text.
enum class ExtractMode { kLayout, kMain };

/// Options of a crawl run; the app fills them from the recipe's group `crawl`.
struct CrawlOptions {
  std::vector<std::string> select_types{"response"};  ///< also "resource", "conversion"
  std::vector<std::string> select_mime{"text/html", "application/xhtml+xml", "text/plain"};
  std::vector<std::int64_t> select_status{200};
  std::uint64_t max_payload_bytes = std::uint64_t{64} << 20;
  CharsetOptions charset;
  HtmlLimits html;
  bool drop_over_limit =
      false;  ///< a page over a budget: false = kept as far as parsed, true = dropped
  ExtractMode extract = ExtractMode::kLayout;
  double min_confidence = 0;  ///< of main content
  Policy policy;              ///< rules that every page must pass
  Annotate annotate = Annotate::kPolicy;
  PiiOptions pii{.mode = PiiMode::kOff};
  bool drop_near_duplicates = false;
  NearDuplicateOptions near;
  bool drop_duplicates = true;  ///< documents whose text equals an earlier one's
  std::string dump;
  std::uint64_t shard_bytes = std::uint64_t{1} << 30;  ///< before compression
  std::uint64_t frame_bytes = std::uint64_t{4} << 20;
  int zstd_level = 3;
  double max_bad_share = 0.01;  ///< damaged records / records
  std::size_t num_threads = 1;
};

}  // namespace sx
