#include "sextant/crawl/shard_runner.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "sextant/base/check.h"
#include "sextant/base/thread_pool.h"
#include "sextant/crawl/attribute_lines.h"
#include "sextant/crawl/collector.h"

namespace sx {

namespace {

constexpr std::size_t kBatchRecords = 256;
constexpr std::uint64_t kBatchBytes = std::uint64_t{4} << 20;
constexpr std::size_t kSnippetBytes = 400;

struct Batch {
  std::size_t file = 0;
  std::string file_name;
  std::vector<WarcRecord> records;
  std::vector<WarcGap>
      gaps;  // read behind the records of this batch or between them: order among drops is free
  std::uint64_t bytes = 0;
  PipelineCounters counters{};
  std::vector<CrawlOutcome> outcomes;
};

/// The beginning of what was read of a page, for the report.
std::string snippet_of(const PageInWork& page) {
  const std::string* from =
      !page.extraction.text.empty() ? &page.extraction.text : &page.decoded.text;
  return from->substr(0, kSnippetBytes);
}

void work_on(Batch& batch, PageWorker& worker, const CrawlOptions& options,
             const NearDuplicates* near) {
  for (WarcRecord& record : batch.records) {
    PageInWork page;
    page.record = std::move(record);
    page.source_file = batch.file_name;
    CrawlOutcome out;
    out.id = document_id(page.record, batch.file_name);
    out.verdict = run_page(page, worker, options, batch.counters);
    if (!out.verdict.kept()) {
      out.url = page.record.url;
      out.snippet = snippet_of(page);
    } else {
      if (options.annotate != Annotate::kOff &&
          (options.annotate == Annotate::kAll || !options.policy.empty())) {
        if (options.annotate == Annotate::kAll)
          measure_all({page.extraction.text, primary_language(page.extraction.html_lang)},
                      page.trail);
        out.attributes = to_attribute_line(out.id, page.trail, page.extraction.text);
      }
      Document document = make_document(std::move(page));
      out.url = document.url;
      out.snippet = document.text.substr(0, kSnippetBytes);
      out.text_hash = xxh3_128(document.text);
      out.text_bytes = document.text.size();
      out.language = document.language;
      out.charset = document.metadata.charset;
      out.replaced = document.metadata.replaced;
      out.truncated = document.metadata.truncated;
      out.line = to_json_line(document, options.dump);
      if (near != nullptr) out.sketch = near->sketch(document.text);
    }
    batch.outcomes.push_back(std::move(out));
  }
  batch.records.clear();
}

Result<void> take_batch(CrawlCollector& collector, Batch& batch, CrawlSummary& summary) {
  for (std::size_t i = 0; i < kNumSteps; ++i) summary.steps[i].add(batch.counters[i]);
  for (const WarcGap& gap : batch.gaps) collector.take_gap(gap, batch.file);
  for (CrawlOutcome& out : batch.outcomes) {
    out.file = batch.file;
    SX_TRY_VOID(collector.take(out));
  }
  return {};
}

/// Cuts the inputs into batches in order.
class BatchSource {
 public:
  BatchSource(std::vector<WarcReader>& readers, CrawlSummary& summary)
      : readers_(readers), summary_(summary) {}

  Result<std::unique_ptr<Batch>> next() {
    while (file_ < readers_.size()) {
      auto batch = std::make_unique<Batch>();
      batch->file = file_;
      batch->file_name = summary_.files[file_].path;
      SX_TRY(const bool more, fill(*batch));
      if (!more) ++file_;
      if (!batch->records.empty() || !batch->gaps.empty()) return batch;
    }
    return std::unique_ptr<Batch>();
  }
  std::uint64_t bytes_read() const {
    return done_ + (file_ < readers_.size() ? readers_[file_].position() : 0);
  }

 private:
  Result<bool> fill(Batch& batch) {
    WarcReader& reader = readers_[file_];
    CrawlFileSummary& file = summary_.files[file_];
    while (batch.records.size() + batch.gaps.size() < kBatchRecords && batch.bytes < kBatchBytes) {
      auto record = reader.next();
      if (!record.ok() && record.error().kind != ErrorKind::kCorrupt)
        return std::move(record).error();
      if (record.ok() && !record->has_value()) {
        file.trailing_bytes = reader.trailing_bytes();
        done_ += reader.file_bytes();
        return false;
      }
      ++file.records;
      if (!record.ok()) {
        ++file.damaged;
        file.gap_bytes += reader.last_gap().bytes;
        batch.gaps.push_back(reader.last_gap());
        continue;
      }
      file.record_bytes += (*record)->stored_bytes;
      batch.bytes += (*record)->block.size();
      batch.records.push_back(std::move(**record));
    }
    return true;
  }

  std::vector<WarcReader>& readers_;
  CrawlSummary& summary_;
  std::size_t file_ = 0;
  std::uint64_t done_ = 0;
};

/// Batches in work on several threads; given back in the order they came.
class OrderedWork {
 public:
  OrderedWork(std::size_t num_threads, const CrawlOptions& options, const NearDuplicates* near)
      : options_(options), near_(near) {
    if (num_threads > 1) pool_ = std::make_unique<ThreadPool>(num_threads);
  }

  std::size_t size() const { return queue_.size(); }
  void push(std::unique_ptr<Batch> batch) {
    const auto task =
        std::make_shared<std::packaged_task<void()>>([this, raw = batch.get()] { run(*raw); });
    queue_.push_back({std::move(batch), task->get_future()});
    if (!pool_) return (*task)();
    pool_->submit([task] { (*task)(); });
  }
  /// The oldest batch, when done; throws what its work threw (a defect, or no memory).
  std::unique_ptr<Batch> pop() {
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    entry.done.get();
    return std::move(entry.batch);
  }

 private:
  struct Entry {
    std::unique_ptr<Batch> batch;
    std::future<void> done;
  };

  std::unique_ptr<PageWorker> take_worker() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<PageWorker>();
    auto worker = std::move(idle_.back());
    idle_.pop_back();
    return worker;
  }
  void run(Batch& batch) {
    auto worker = take_worker();
    work_on(batch, *worker, options_, near_);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(worker));
  }

  const CrawlOptions& options_;
  const NearDuplicates* near_;
  std::deque<Entry> queue_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PageWorker>> idle_;
  std::unique_ptr<ThreadPool> pool_;  // last: its destructor waits for tasks that use the others
};

}  // namespace

std::uint64_t CrawlSummary::dropped(Reason reason) const {
  std::uint64_t total = 0;
  for (const StepCounters& step : steps) total += step.dropped[static_cast<std::size_t>(reason)];
  return total;
}

std::uint64_t CrawlSummary::bytes() const {
  std::uint64_t total = 0;
  for (const CrawlFileSummary& file : files) total += file.bytes;
  return total;
}

Result<CrawlSummary> run_crawl(
    const std::vector<fs::path>& inputs, const CrawlOptions& options, const fs::path& folder,
    const std::function<void(std::uint64_t, const CrawlSummary&)>& progress,
    const std::function<bool()>& stop_requested) {
  const auto begin = std::chrono::steady_clock::now();
  CrawlSummary summary{};
  std::vector<WarcReader> readers;
  for (const fs::path& path :
       inputs) {  // all are opened first: a missing file ends the run before work is done
    WarcLimits limits;
    limits.max_block_bytes = options.max_payload_bytes;
    SX_TRY(auto reader, WarcReader::open(path, limits));
    CrawlFileSummary file;
    file.path = path.string();
    file.bytes = reader.file_bytes();
    summary.files.push_back(std::move(file));
    readers.push_back(std::move(reader));
  }
  CrawlCollector collector(summary, folder, options);
  BatchSource source(readers, summary);
  OrderedWork work(options.num_threads, options, collector.near());
  const std::size_t in_flight = options.num_threads > 1 ? 2 * options.num_threads : 1;
  bool more = true;
  while (more || work.size() > 0) {
    if (stop_requested && stop_requested()) {
      summary.stopped = true;
      return summary;
    }
    while (more && work.size() < in_flight) {
      SX_TRY(auto batch, source.next());
      more = batch != nullptr;
      if (more) work.push(std::move(batch));
    }
    if (work.size() == 0) break;
    const auto batch = work.pop();
    SX_TRY_VOID(take_batch(collector, *batch, summary));
    if (progress) progress(source.bytes_read(), summary);
  }
  SX_TRY_VOID(collector.finish());
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return summary;
}

}  // namespace sx
