#include "sextant/crawl/collector.h"

#include <bit>
#include <chrono>

#include <fmt/format.h>

#include "sextant/base/check.h"
#include "sextant/text/jsonl_reader.h"

namespace sx {

namespace {

constexpr std::size_t kExamples = 3;
constexpr std::size_t kMaxValues = 100;

using CollectorClock = std::chrono::steady_clock;

double seconds_since(CollectorClock::time_point begin) {
  return std::chrono::duration<double>(CollectorClock::now() - begin).count();
}

}  // namespace

void CrawlCollector::IdSums::add(const Hash128& id) {
  xor_low ^= id.low;
  xor_high ^= id.high;
  sum_low += id.low;
  sum_high += id.high + (sum_low < id.low ? 1 : 0);
}

void CrawlCollector::IdSums::add(const IdSums& other) {
  xor_low ^= other.xor_low;
  xor_high ^= other.xor_high;
  sum_low += other.sum_low;
  sum_high += other.sum_high + (sum_low < other.sum_low ? 1 : 0);
}

CrawlCollector::CrawlCollector(CrawlSummary& summary, const fs::path& folder,
                               const CrawlOptions& options)
    : summary_(summary), writer_(folder, options), options_(options) {
  if (!options.drop_near_duplicates) return;
  near_ = std::make_unique<NearDuplicates>(options.near);
  waiting_path_ = folder / "waiting.jsonl.zst";
}

void CrawlCollector::take_gap(const WarcGap& gap, std::size_t file) {
  ++summary_.steps.front().docs_in;
  note_drop(
      summary_.steps.front(), Verdict::drop(Reason::kReadDamaged, gap.cause),
      fmt::format("{} at offset {}, {} bytes", summary_.files[file].path, gap.offset, gap.bytes),
      "");
}

Result<void> CrawlCollector::take(CrawlOutcome& out) {
  read_.add(out.id);
  if (!out.verdict.kept()) {
    dropped_.add(out.id);
    note_example(out.verdict, out.url, out.snippet);
    return {};
  }
  StepCounters& dedup = summary_.steps[kDedupStep];
  ++dedup.docs_in;
  if (options_.drop_duplicates && !texts_.insert(out.text_hash).second) {
    dropped_.add(out.id);
    note_drop(dedup, Verdict::drop(Reason::kDedupDocument), out.url, out.snippet);
    return {};
  }
  if (near_) return wait(out);
  ++dedup.kept;
  return write(out);
}

Result<void> CrawlCollector::wait(CrawlOutcome& out) {
  const auto begin = CollectorClock::now();
  if (!waiting_) {
    SX_TRY(auto writer, JsonlWriter::create(waiting_path_, {.zstd_level = 1}));
    waiting_.emplace(std::move(writer));
  }
  SX_TRY_VOID(waiting_->write_line(out.line));
  SX_TRY_VOID(waiting_->write_line(out.attributes));
  near_->add(std::move(out.sketch), out.id.low);
  out.line = {};
  out.attributes = {};
  waiting_outcomes_.push_back(std::move(out));
  summary_.steps[kDedupStep].seconds += seconds_since(begin);
  return {};
}

Result<void> CrawlCollector::write(const CrawlOutcome& out) {
  const auto begin = CollectorClock::now();
  StepCounters& step = summary_.steps[kWriteStep];
  ++step.docs_in;
  SX_TRY_VOID(writer_.write_line(out.line, out.attributes));
  ++step.kept;
  written_.add(out.id);
  step.seconds += seconds_since(begin);
  ++summary_.files[out.file].documents;
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

Result<void> CrawlCollector::drop_near_duplicates() {
  if (!near_ || !waiting_) return {};
  SX_TRY_VOID(waiting_->commit());
  waiting_.reset();
  const auto begin = CollectorClock::now();
  const std::vector<bool> keep = near_->finish();
  StepCounters& dedup = summary_.steps[kDedupStep];
  dedup.seconds += seconds_since(begin);
  summary_.near = near_->report();
  SX_TRY(auto reader, LineReader::open(waiting_path_));
  for (std::size_t i = 0; i < waiting_outcomes_.size(); ++i) {
    CrawlOutcome& out = waiting_outcomes_[i];
    for (std::string* part : {&out.line, &out.attributes}) {
      SX_TRY(const auto line, reader.next());
      SX_CHECK(line.has_value(), "{} holds fewer lines than were written", waiting_path_.string());
      *part = *line;
    }
    if (keep[i]) {
      ++dedup.kept;
      SX_TRY_VOID(write(out));
    } else {
      dropped_.add(out.id);
      note_drop(dedup, Verdict::drop(Reason::kDedupMinhash), out.url, out.snippet);
    }
    out.line = {};
    out.attributes = {};
  }
  std::error_code ignored;
  fs::remove(waiting_path_, ignored);
  return {};
}

Result<void> CrawlCollector::finish() {
  SX_TRY_VOID(drop_near_duplicates());
  check_conservation();
  SX_TRY_VOID(writer_.commit());
  summary_.shards = writer_.shards();
  return {};
}

void CrawlCollector::note_drop(StepCounters& step, const Verdict& verdict, const std::string& url,
                               const std::string& snippet) {
  ++step.dropped[static_cast<std::size_t>(verdict.reason)];
  note_example(verdict, url, snippet);
}

void CrawlCollector::note_example(const Verdict& verdict, const std::string& url,
                                  const std::string& snippet) {
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

void CrawlCollector::check_conservation() const {
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

}  // namespace sx
