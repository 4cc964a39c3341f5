#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "sextant/crawl/charset.h"
#include "sextant/crawl/crawl_options.h"
#include "sextant/crawl/document.h"
#include "sextant/crawl/extract.h"
#include "sextant/crawl/http_payload.h"
#include "sextant/crawl/policy.h"
#include "sextant/crawl/verdict.h"
#include "sextant/crawl/warc_reader.h"

namespace sx {

/// A record on its way to a document: each step fills its part.
struct PageInWork {
  WarcRecord record;
  std::string source_file;
  HttpPayload payload;
  std::string mime;
  bool is_html = false;
  DecodedPage decoded;
  Extraction extraction;
  PolicyTrail trail;        ///< what the rules counted
  std::uint64_t edits = 0;  ///< spans that rules changed in the text
  PiiCounts pii{};
};

/// What one thread reuses from page to page.
struct PageWorker {
  HtmlParser parser;
  ParsedPage parsed;  ///< of the page in work
};

/// One named step of the line. A step keeps the page or drops it with a reason.
struct PageStep {
  const char* name;
  Verdict (*run)(PageInWork&, PageWorker&, const CrawlOptions&);
};

/// read -> payload -> decode -> parse -> extract -> policy -> pii, in this order; the shard runner
/// adds dedup and write behind them.
std::span<const PageStep> page_steps();

inline constexpr std::size_t kNumSteps = 9;
/// Names of all steps: those of page_steps(), "dedup", "write".
const std::array<const char*, kNumSteps>& step_names();
inline constexpr std::size_t kPolicyStep = 5;
inline constexpr std::size_t kPiiStep = 6;
inline constexpr std::size_t kDedupStep = 7;
inline constexpr std::size_t kWriteStep = 8;

/// What happened to the pages that entered a step.
struct StepCounters {
  std::uint64_t docs_in = 0;
  std::uint64_t kept = 0;
  std::array<std::uint64_t, kNumReasons> dropped{};
  double seconds = 0;
  std::uint64_t total_dropped() const;
  void add(const StepCounters& other);
};
using PipelineCounters = std::array<StepCounters, kNumSteps>;

/// Runs the page through the steps until one drops it. Counts and times each step.
Verdict run_page(PageInWork& page, PageWorker& worker, const CrawlOptions& options,
                 PipelineCounters& counters);

/// The step for personal data on a text. Counts of the trail no longer hold when it changed.
Verdict mask_pii(PolicyText& page, const CrawlOptions& options, PiiCounts& found,
                 PolicyTrail& trail);

/// The document of a page that passed every step.
Document make_document(PageInWork&& page);
/// XXH3-128 of the record's id, or of "file:offset" when it has none.
Hash128 document_id(const WarcRecord& record, const std::string& source_file);

}  // namespace sx
