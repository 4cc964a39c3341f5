#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "sextant/crawl/minhash_dedup.h"
#include "sextant/crawl/shard_runner.h"
#include "sextant/text/jsonl_writer.h"

namespace sx {

/// What a worker makes of one record or stored document.
struct CrawlOutcome {
  Verdict verdict;
  Hash128 id;
  std::string url;
  std::string snippet;
  std::string line;        ///< of a document
  std::string attributes;  ///< its line of attributes; empty when none are kept
  Hash128 text_hash;
  std::uint64_t text_bytes = 0;
  std::string language;
  std::string charset;
  std::uint64_t replaced = 0;
  bool truncated = false;
  std::size_t file = 0;
  DocumentSketch sketch;  ///< for near-duplicates
};

/// The sequential half of a run: takes outcomes in order, drops duplicates, writes, counts, keeps
/// examples, checks conservation. Near-duplicates are known only when all documents are: until then
/// lines wait in a file of the run's folder.
class CrawlCollector {
 public:
  CrawlCollector(CrawlSummary& summary, const fs::path& folder, const CrawlOptions& options);

  /// The search for near-duplicates, for sketches made by workers; nullptr when it is off.
  const NearDuplicates* near() const { return near_.get(); }

  /// An outcome of the steps in front of dedup, whose counters the caller adds to the summary.
  Result<void> take(CrawlOutcome& out);
  /// A place of an input that is no record.
  void take_gap(const WarcGap& gap, std::size_t file);

  /// To be called when all outcomes were taken: documents that waited, conservation, files.
  Result<void> finish();

 private:
  /// Order-free fingerprint of a set of ids.
  struct IdSums {
    std::uint64_t xor_low = 0, xor_high = 0, sum_low = 0, sum_high = 0;
    void add(const Hash128& id);
    void add(const IdSums& other);
    friend bool operator==(const IdSums&, const IdSums&) = default;
  };
  struct HashOfHash {
    std::size_t operator()(const Hash128& h) const { return static_cast<std::size_t>(h.low); }
  };

  Result<void> wait(CrawlOutcome& out);
  Result<void> write(const CrawlOutcome& out);
  Result<void> drop_near_duplicates();
  void check_conservation() const;
  void note_drop(StepCounters& step, const Verdict& verdict, const std::string& url,
                 const std::string& snippet);
  void note_example(const Verdict& verdict, const std::string& url, const std::string& snippet);

  CrawlSummary& summary_;
  DocumentWriter writer_;
  const CrawlOptions& options_;
  std::unordered_set<Hash128, HashOfHash> texts_;
  IdSums read_, written_, dropped_;
  std::unique_ptr<NearDuplicates> near_;
  fs::path waiting_path_;
  std::optional<JsonlWriter> waiting_;
  std::vector<CrawlOutcome> waiting_outcomes_;
};

}  // namespace sx
