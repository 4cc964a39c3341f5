#include "sextant/crawl/shard_runner.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>

#include <fmt/format.h>

#include "sextant/base/check.h"
#include "sextant/base/thread_pool.h"

namespace sx {

namespace {

constexpr std::size_t kBatchRecords = 256;
constexpr std::uint64_t kBatchBytes = std::uint64_t{4} << 20;
constexpr std::size_t kExamples = 3;
constexpr std::size_t kSnippetBytes = 400;
constexpr std::size_t kMaxValues = 100;

/// Order-free fingerprint of a set of ids.
struct IdSums {
  std::uint64_t xor_low = 0, xor_high = 0, sum_low = 0, sum_high = 0;
  void add(const Hash128& id) {
    xor_low ^= id.low;
    xor_high ^= id.high;
    sum_low += id.low;
    sum_high += id.high + (sum_low < id.low ? 1 : 0);
  }
  void add(const IdSums& other) {
    xor_low ^= other.xor_low;
    xor_high ^= other.xor_high;
    sum_low += other.sum_low;
    sum_high += other.sum_high + (sum_low < other.sum_low ? 1 : 0);
  }
  friend bool operator==(const IdSums&, const IdSums&) = default;
};

struct HashOfHash {
  std::size_t operator()(const Hash128& h) const { return static_cast<std::size_t>(h.low); }
};

/// What a worker makes of one record.
struct Outcome {
  Verdict verdict;
  Hash128 id;
  std::string url;
  std::string snippet;
  std::string line;  // of a document
  Hash128 text_hash;
  std::uint64_t text_bytes = 0;
  std::string language;
  std::string charset;
  std::uint64_t replaced = 0;
  bool truncated = false;
};

struct Batch {
  std::size_t file = 0;
  std::string file_name;
  std::vector<WarcRecord> records;
  std::vector<WarcGap>
      gaps;  // read behind the records of this batch or between them: order among drops is free
  std::uint64_t bytes = 0;
  PipelineCounters counters{};
  std::vector<Outcome> outcomes;
};

/// The beginning of what was read of a page, for the report.
std::string snippet_of(const PageInWork& page) {
  const std::string* from =
      !page.extraction.text.empty() ? &page.extraction.text : &page.decoded.text;
  return from->substr(0, kSnippetBytes);
}

void work_on(Batch& batch, PageWorker& worker, const CrawlOptions& options) {
  for (WarcRecord& record : batch.records) {
    PageInWork page;
    page.record = std::move(record);
    page.source_file = batch.file_name;
    Outcome out;
    out.id = document_id(page.record, batch.file_name);
    out.verdict = run_page(page, worker, options, batch.counters);
    if (!out.verdict.kept()) {
      out.url = page.record.url;
      out.snippet = snippet_of(page);
    } else {
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
    }
    batch.outcomes.push_back(std::move(out));
  }
  batch.records.clear();
}

/// The sequential half: takes batches in order, drops duplicates, writes, counts.
class Collector {
 public:
  Collector(CrawlSummary& summary, const fs::path& folder, const CrawlOptions& options)
      : summary_(summary), writer_(folder, options), options_(options) {}

  Result<void> take(Batch& batch) {
    for (std::size_t i = 0; i < kNumSteps; ++i) summary_.steps[i].add(batch.counters[i]);
    for (const WarcGap& gap : batch.gaps) {
      ++summary_.steps.front().docs_in;
      note_drop(summary_.steps.front(), Verdict::drop(Reason::kReadDamaged, gap.cause),
                fmt::format("{} at offset {}, {} bytes", summary_.files[batch.file].path,
                            gap.offset, gap.bytes),
                "");
    }
    for (Outcome& out : batch.outcomes) SX_TRY_VOID(take(out, batch.file));
    return {};
  }

  Result<void> commit() {
    SX_TRY_VOID(writer_.commit());
    summary_.shards = writer_.shards();
    return {};
  }
  void check_conservation() const;

 private:
  Result<void> take(Outcome& out, std::size_t file) {
    read_.add(out.id);
    if (!out.verdict.kept()) {
      dropped_.add(out.id);
      note_example(out.verdict, out.url, out.snippet);
      return {};
    }
    const auto begin = std::chrono::steady_clock::now();
    StepCounters& dedup = summary_.steps[kDedupStep];
    ++dedup.docs_in;
    if (options_.drop_duplicates && !texts_.insert(out.text_hash).second) {
      dropped_.add(out.id);
      note_drop(dedup, Verdict::drop(Reason::kDedupDocument), out.url, out.snippet);
      return {};
    }
    ++dedup.kept;
    StepCounters& write = summary_.steps[kWriteStep];
    ++write.docs_in;
    SX_TRY_VOID(writer_.write_line(out.line));
    ++write.kept;
    written_.add(out.id);
    write.seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ++summary_.files[file].documents;
    ++summary_.languages[out.language];
    ++summary_.charsets[out.charset];
    summary_.total_text_bytes += out.text_bytes;
    summary_.replaced += out.replaced;
    summary_.truncated += out.truncated ? 1 : 0;
    const std::size_t bucket = static_cast<std::size_t>(std::bit_width(out.text_bytes)) - 1;
    if (summary_.text_bytes.size() <= bucket) summary_.text_bytes.resize(bucket + 1);
    ++summary_.text_bytes[bucket];
    return {};
  }

  void note_drop(StepCounters& step, const Verdict& verdict, const std::string& url,
                 const std::string& snippet) {
    ++step.dropped[static_cast<std::size_t>(verdict.reason)];
    note_example(verdict, url, snippet);
  }
  void note_example(const Verdict& verdict, const std::string& url, const std::string& snippet) {
    const auto index = static_cast<std::size_t>(verdict.reason);
    auto& values = summary_.values[index];
    if (!verdict.value.empty()) {
      if (values.contains(verdict.value) || values.size() < kMaxValues)
        ++values[verdict.value];
      else
        ++values["others"];
    }
    auto& examples = summary_.examples[index];
    if (examples.size() < kExamples) examples.push_back({url, verdict.value, snippet});
  }

  CrawlSummary& summary_;
  DocumentWriter writer_;
  const CrawlOptions& options_;
  std::unordered_set<Hash128, HashOfHash> texts_;
  IdSums read_, written_, dropped_;
};

void Collector::check_conservation() const {
  const auto& steps = summary_.steps;
  std::uint64_t drops = 0;
  for (std::size_t i = 0; i < kNumSteps; ++i) {
    const StepCounters& step = steps[i];
    SX_CHECK(step.docs_in == step.kept + step.total_dropped(),
             "conservation: step {} took {} and gave {} + {}", step_names()[i], step.docs_in,
             step.kept, step.total_dropped());
    SX_CHECK(i == 0 || step.docs_in == steps[i - 1].kept,
             "conservation: step {} kept {}, step {} took {}", step_names()[i - 1],
             steps[i - 1].kept, step_names()[i], step.docs_in);
    drops += step.total_dropped();
  }
  SX_CHECK(summary_.records() == summary_.documents() + drops,
           "conservation: {} records, {} documents, {} drops", summary_.records(),
           summary_.documents(), drops);
  std::uint64_t records = 0;
  std::uint64_t documents = 0;
  for (const CrawlFileSummary& file : summary_.files) {
    SX_CHECK(file.bytes == file.record_bytes + file.gap_bytes + file.trailing_bytes,
             "conservation: {} has {} bytes, records {} + gaps {} + trailing {}", file.path,
             file.bytes, file.record_bytes, file.gap_bytes, file.trailing_bytes);
    records += file.records;
    documents += file.documents;
  }
  SX_CHECK(records == summary_.records(), "conservation: files hold {} records, the line took {}",
           records, summary_.records());
  SX_CHECK(documents == summary_.documents(),
           "conservation: files gave {} documents, {} were written", documents,
           summary_.documents());
  IdSums left = written_;
  left.add(dropped_);
  SX_CHECK(left == read_, "conservation: ids written and dropped are not the ids read");
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
  OrderedWork(std::size_t num_threads, const CrawlOptions& options) : options_(options) {
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
    work_on(batch, *worker, options_);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(worker));
  }

  const CrawlOptions& options_;
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
  Collector collector(summary, folder, options);
  BatchSource source(readers, summary);
  OrderedWork work(options.num_threads, options);
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
    SX_TRY_VOID(collector.take(*batch));
    if (progress) progress(source.bytes_read(), summary);
  }
  collector.check_conservation();
  SX_TRY_VOID(collector.commit());
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return summary;
}

}  // namespace sx
