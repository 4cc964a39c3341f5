#include "sextant/crawl/replay.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "sextant/crawl/attribute_lines.h"
#include "sextant/crawl/collector.h"
#include "sextant/text/jsonl_reader.h"

namespace sx {

namespace {

/// A line that to_json_line() wrote, taken apart without changing what is not asked for.
struct StoredDocument {
  std::string line;
  std::size_t text_begin = 0, text_end = 0;  ///< of the JSON string, with its quotes
  nlohmann::json json;

  std::string string_at(const char* pointer) const {
    return json.value(nlohmann::json::json_pointer(pointer), std::string());
  }
  std::uint64_t number_at(const char* pointer) const {
    return json.value(nlohmann::json::json_pointer(pointer), std::uint64_t{0});
  }
};

Result<StoredDocument> parse_stored(std::string_view line, const std::string& where) {
  constexpr std::string_view kStart = "{\"id\":\"";
  constexpr std::size_t kIdDigits = 32;
  constexpr std::string_view kText = "\",\"text\":";
  StoredDocument out;
  out.line = line;
  const auto corrupt = [&] {
    return Error{ErrorKind::kCorrupt, "a line that sextant crawl did not write", where};
  };
  if (!line.starts_with(kStart) || line.substr(kStart.size() + kIdDigits, kText.size()) != kText)
    return corrupt();
  out.text_begin = kStart.size() + kIdDigits + kText.size();
  out.text_end = out.text_begin + 1;
  while (out.text_end < line.size() && line[out.text_end] != '"')
    out.text_end += line[out.text_end] == '\\' ? 2 : 1;
  if (out.text_end >= line.size()) return corrupt();
  ++out.text_end;
  out.json = nlohmann::json::parse(line, nullptr, false);
  if (!out.json.is_object() || !out.json.contains("metadata")) return corrupt();
  return out;
}

Hash128 id_of(const std::string& hex) {
  Hash128 id;
  if (hex.size() != 32) return id;
  std::from_chars(hex.data(), hex.data() + 16, id.high, 16);
  std::from_chars(hex.data() + 16, hex.data() + 32, id.low, 16);
  return id;
}

/// The line with another text, other numbers of edits and finds.
std::string changed_line(const StoredDocument& stored, const std::string& text, std::uint64_t edits,
                         const PiiCounts& pii) {
  std::string out = stored.line.substr(0, stored.text_begin);
  append_json_string(out, text);
  out += stored.line.substr(stored.text_end);
  const std::size_t at = out.rfind(",\"edits\":");
  const std::size_t end = out.find(",\"extraction\":", at);
  out = out.substr(0, at) + fmt::format(",\"edits\":{}", edits) + out.substr(end);
  const std::size_t found = out.rfind("\"pii\":{");
  out.resize(found);
  return out + "\"pii\":" + pii_json(pii) + "}}";
}

/// One document through policy and scanners.
class ReplayLine {
 public:
  ReplayLine(const CrawlOptions& options, const NearDuplicates* near, CrawlSummary& summary)
      : options_(options), near_(near), summary_(summary) {}

  Result<CrawlOutcome> run(const StoredDocument& stored, PolicyTrail trail) {
    for (std::size_t i = 0; i < kPolicyStep; ++i) {
      ++summary_.steps[i].docs_in;
      ++summary_.steps[i].kept;
    }
    CrawlOutcome out;
    out.id = id_of(stored.string_at("/id"));
    out.url = stored.string_at("/url");
    PolicyText page;
    page.text = stored.string_at("/text");
    page.language = stored.string_at("/language");
    const std::string before = page.text;
    out.verdict = step(kPolicyStep, [&] { return apply_policy(options_.policy, page, &trail); });
    PiiCounts pii{};
    if (out.verdict.kept())
      out.verdict = step(kPiiStep, [&] { return mask_pii(page, options_, pii, trail); });
    out.snippet = page.text.substr(0, 400);
    if (!out.verdict.kept()) return out;
    const std::uint64_t edits = stored.number_at("/metadata/edits") + page.edits;
    out.line = page.text == before && pii == PiiCounts{} && page.edits == 0
                   ? stored.line
                   : changed_line(stored, page.text, edits, pii);
    if (options_.annotate == Annotate::kAll ||
        (options_.annotate == Annotate::kPolicy && !options_.policy.empty())) {
      if (options_.annotate == Annotate::kAll) measure_all(page, trail);
      out.attributes = to_attribute_line(out.id, trail, page.text);
    }
    out.text_hash = xxh3_128(page.text);
    out.text_bytes = page.text.size();
    out.language = page.language;
    out.charset = stored.string_at("/metadata/charset");
    out.replaced = stored.number_at("/metadata/replaced");
    out.truncated = stored.json["metadata"].value("truncated", false);
    if (near_ != nullptr) out.sketch = near_->sketch(page.text);
    return out;
  }

 private:
  template <class Run>
  Verdict step(std::size_t index, Run run) {
    StepCounters& counters = summary_.steps[index];
    const auto begin = std::chrono::steady_clock::now();
    ++counters.docs_in;
    Verdict verdict = run();
    counters.seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (verdict.kept())
      ++counters.kept;
    else
      ++counters.dropped[static_cast<std::size_t>(verdict.reason)];
    return verdict;
  }

  const CrawlOptions& options_;
  const NearDuplicates* near_;
  CrawlSummary& summary_;
};

Result<void> replay_file(const fs::path& documents, const fs::path& attributes, std::size_t index,
                         ReplayLine& replay, CrawlCollector& collector, CrawlSummary& summary) {
  SX_TRY(auto lines, LineReader::open(documents));
  std::optional<LineReader> counts;
  if (fs::exists(attributes)) {
    SX_TRY(auto opened, LineReader::open(attributes));
    counts.emplace(std::move(opened));
  }
  CrawlFileSummary& file = summary.files[index];
  for (;;) {
    SX_TRY(const auto line, lines.next());
    if (!line) break;
    ++file.records;
    SX_TRY(const StoredDocument stored,
           parse_stored(*line, fmt::format("{}:{}", documents.string(), lines.line_number())));
    PolicyTrail trail;
    if (counts) {
      SX_TRY(const auto known, counts->next());
      if (!known)
        return Error{ErrorKind::kCorrupt, "fewer lines than documents", attributes.string()};
      SX_TRY(trail, parse_attribute_line(*known, stored.string_at("/id")));
    }
    SX_TRY(CrawlOutcome out, replay.run(stored, std::move(trail)));
    out.file = index;
    SX_TRY_VOID(collector.take(out));
  }
  return {};
}

}  // namespace

Result<CrawlSummary> run_replay(const fs::path& run, const CrawlOptions& options,
                                const fs::path& folder) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<fs::path> documents;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(run, code)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("docs-") && name.ends_with(".jsonl.zst"))
      documents.push_back(entry.path());
  }
  if (documents.empty())
    return Error{ErrorKind::kNotFound, "no docs-*.jsonl.zst is here", run.string()};
  std::sort(documents.begin(), documents.end());
  CrawlSummary summary{};
  for (const fs::path& path : documents) {
    CrawlFileSummary file;
    file.path = path.string();
    file.bytes = fs::file_size(path, code);
    file.record_bytes = file.bytes;
    summary.files.push_back(std::move(file));
  }
  CrawlCollector collector(summary, folder, options);
  ReplayLine replay(options, collector.near(), summary);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    SX_TRY_VOID(replay_file(documents[i], run / "attributes" / documents[i].filename(), i, replay,
                            collector, summary));
  }
  SX_TRY_VOID(collector.finish());
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return summary;
}

}  // namespace sx
