#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sextant/base/fs.h"
#include "sextant/base/result.h"
#include "sextant/crawl/document_writer.h"
#include "sextant/crawl/pipeline.h"

namespace sx {

/// A dropped page, for the report.
struct DropExample {
  std::string url;
  std::string value;    ///< what decided: status, media type, encoding, cause of damage
  std::string snippet;  ///< beginning of its text as far as it was read
};

/// One input file.
struct CrawlFileSummary {
  std::string path;
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;  ///< whole records and damaged places
  std::uint64_t damaged = 0;
  std::uint64_t documents = 0;
  std::uint64_t record_bytes = 0, gap_bytes = 0, trailing_bytes = 0;  ///< sum = bytes
};

struct CrawlSummary {
  PipelineCounters steps;
  std::vector<CrawlFileSummary> files;
  std::array<std::vector<DropExample>, kNumReasons> examples;  ///< first three of each reason
  std::array<std::map<std::string, std::uint64_t>, kNumReasons> values;  ///< what decided, counted
  std::map<std::string, std::uint64_t> languages;  ///< declared, of kept documents
  std::map<std::string, std::uint64_t> charsets;   ///< used, of kept documents
  std::vector<DocumentWriter::Shard> shards;
  std::vector<std::uint64_t>
      text_bytes;  ///< histogram of text lengths: element k counts lengths in [2^k, 2^(k+1))
  std::uint64_t total_text_bytes = 0;
  NearDuplicateReport near;  ///< of the search for near-duplicates
  std::uint64_t replaced = 0;
  std::uint64_t truncated = 0;
  double seconds = 0;
  bool stopped = false;  ///< asked to stop: nothing was written

  std::uint64_t records() const { return steps.front().docs_in; }
  std::uint64_t damaged() const {
    return steps.front().dropped[static_cast<std::size_t>(Reason::kReadDamaged)];
  }
  std::uint64_t documents() const { return steps.back().kept; }
  std::uint64_t dropped(Reason reason) const;
  std::uint64_t bytes() const;
  double bad_share() const {
    return records() == 0 ? 0 : static_cast<double>(damaged()) / static_cast<double>(records());
  }
};

/// Reads archives in the order given, runs every record through the line, writes documents in the
/// order of the input. The written bytes do not depend on `num_threads`.
///
/// Memory:  about 2 x threads batches of 4 MiB of records, the hashes of the texts written (16
/// bytes each), one tree per
///          thread.
/// Errors:  kNotFound, kIo, kUnsupported of an input or of the output; damage inside an input is
/// counted, not an error.
///          After an error or a stop no document lies in `folder`.
/// Contract: conservation, checked before the commit: per step in = kept + dropped, each step's
/// kept = the next one's in,
///          per file bytes = records + gaps + trailing, records = documents + drops; ids by sum and
///          XOR.
Result<CrawlSummary> run_crawl(
    const std::vector<fs::path>& inputs, const CrawlOptions& options, const fs::path& folder,
    const std::function<void(std::uint64_t bytes, const CrawlSummary&)>& progress = {},
    const std::function<bool()>& stop_requested = {});

}  // namespace sx
