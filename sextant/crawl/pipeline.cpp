#include "sextant/crawl/pipeline.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "sextant/base/check.h"
#include "sextant/crawl/url.h"

namespace sx {

namespace {

template <class T>
bool contains(const std::vector<T>& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

Verdict step_read(PageInWork& page, PageWorker&, const CrawlOptions& options) {
  const WarcRecord& record = page.record;
  const std::string type = to_string(record.type);
  if (!contains(options.select_types, type)) {
    if (record.type == WarcType::kRevisit) return Verdict::drop(Reason::kReadRevisitUnresolved);
    return Verdict::drop(Reason::kReadType, type);
  }
  if (record.too_large)
    return Verdict::drop(Reason::kReadTooLarge, fmt::format("{} bytes", record.declared_bytes));
  return Verdict::keep();
}

/// The media type in force: what the bytes say when they contradict the header or the header says
/// nothing.
std::string choose_mime(const std::string& declared, const std::string& body) {
  const std::string sniffed = sniff_media_type(body);
  const bool vague = declared.empty() || declared == "application/octet-stream" ||
                     declared == "unknown/unknown" || declared == "*/*" ||
                     declared.find('/') == std::string::npos;
  if (vague) return sniffed.empty() ? (declared.empty() ? "none" : declared) : sniffed;
  const bool text = declared.starts_with("text/") || declared == "application/xhtml+xml";
  const bool binary =
      !sniffed.empty() && !sniffed.starts_with("text/") && sniffed != "application/xhtml+xml";
  return text && binary ? sniffed : declared;
}

Verdict step_payload(PageInWork& page, PageWorker&, const CrawlOptions& options) {
  WarcRecord& record = page.record;
  if (media_type(record.content_type) == "application/http" || record.type == WarcType::kResponse) {
    const Verdict verdict =
        read_http_payload(record.block, options.max_payload_bytes, page.payload);
    if (page.payload.status != 0 &&
        !contains(options.select_status, std::int64_t{page.payload.status})) {
      return Verdict::drop(Reason::kReadStatus, fmt::format("{}", page.payload.status));
    }
    if (!verdict.kept()) return verdict;
  } else {
    page.payload.content_type = record.content_type;
    page.payload.body = std::move(record.block);
    if (page.payload.body.empty()) return Verdict::drop(Reason::kPayloadEmpty);
  }
  record.block.clear();
  page.mime = choose_mime(media_type(page.payload.content_type), page.payload.body);
  if (!contains(options.select_mime, page.mime))
    return Verdict::drop(Reason::kReadMime, page.mime.substr(0, 80));
  page.is_html = page.mime != "text/plain";
  return Verdict::keep();
}

Verdict step_decode(PageInWork& page, PageWorker&, const CrawlOptions& options) {
  return decode_page(page.payload.body, page.payload.content_type, page.is_html, options.charset,
                     host_of(page.record.url), page.decoded);
}

Verdict step_parse(PageInWork& page, PageWorker& worker, const CrawlOptions& options) {
  if (!page.is_html) return Verdict::keep();
  worker.parsed = worker.parser.parse(page.decoded.text, options.html);
  if (options.drop_over_limit && worker.parsed.end == HtmlEnd::kNodeLimit) {
    return Verdict::drop(Reason::kHtmlNodeLimit, fmt::format("{} nodes", worker.parsed.nodes));
  }
  if (options.drop_over_limit && worker.parsed.end == HtmlEnd::kMemoryLimit) {
    return Verdict::drop(Reason::kHtmlMemoryLimit,
                         fmt::format("{} bytes", worker.parsed.memory_bytes));
  }
  for (DomNode node = worker.parsed.document.first_child(); node;
       node = node.following(worker.parsed.document)) {
    if (node.tag() == Tag::kFrameset) break;
    if (node.tag() == Tag::kBody && node.first_child()) return Verdict::keep();
  }
  return Verdict::drop(Reason::kHtmlEmpty);
}

Verdict step_extract(PageInWork& page, PageWorker& worker, const CrawlOptions& options) {
  if (!page.is_html) return extract_plain(page.decoded.text, page.extraction);
  if (options.extract == ExtractMode::kLayout) return extract_html(worker.parsed, page.extraction);
  return extract_main(worker.parsed, page.record.url, options.min_confidence, page.extraction);
}

Verdict step_policy(PageInWork& page, PageWorker&, const CrawlOptions& options) {
  if (options.policy.empty()) return Verdict::keep();
  PolicyText text;
  text.text = std::move(page.extraction.text);
  text.language = primary_language(page.extraction.html_lang);
  const Verdict verdict = apply_policy(options.policy, text, &page.trail);
  page.extraction.text = std::move(text.text);
  page.edits = text.edits;
  if (verdict.kept() && page.extraction.text.empty()) return Verdict::drop(Reason::kExtractEmpty);
  return verdict;
}

Verdict step_pii(PageInWork& page, PageWorker&, const CrawlOptions& options) {
  PolicyText text{std::move(page.extraction.text)};
  const Verdict verdict = mask_pii(text, options, page.pii, page.trail);
  page.extraction.text = std::move(text.text);
  return verdict;
}

constexpr PageStep kSteps[] = {{"read", step_read},       {"payload", step_payload},
                               {"decode", step_decode},   {"parse", step_parse},
                               {"extract", step_extract}, {"policy", step_policy},
                               {"pii", step_pii}};

}  // namespace

std::span<const PageStep> page_steps() { return kSteps; }

Verdict mask_pii(PolicyText& page, const CrawlOptions& options, PiiCounts& found,
                 PolicyTrail& trail) {
  if (options.pii.mode == PiiMode::kOff) return Verdict::keep();
  std::string text = replace_pii(page.text, options.pii, found);
  std::uint64_t total = 0;
  for (const std::uint64_t count : found) total += count;
  if (total > 0 && options.pii.mode == PiiMode::kDrop)
    return Verdict::drop(Reason::kPiiDropped, fmt::format("{} found", total));
  if (text != page.text) trail.current = trail.entries.size();
  page.text = std::move(text);
  return Verdict::keep();
}

const std::array<const char*, kNumSteps>& step_names() {
  static constexpr std::array<const char*, kNumSteps> kNames = {
      "read", "payload", "decode", "parse", "extract", "policy", "pii", "dedup", "write"};
  return kNames;
}

std::uint64_t StepCounters::total_dropped() const {
  std::uint64_t total = 0;
  for (const std::uint64_t count : dropped) total += count;
  return total;
}

void StepCounters::add(const StepCounters& other) {
  docs_in += other.docs_in;
  kept += other.kept;
  for (std::size_t i = 0; i < kNumReasons; ++i) dropped[i] += other.dropped[i];
  seconds += other.seconds;
}

Verdict run_page(PageInWork& page, PageWorker& worker, const CrawlOptions& options,
                 PipelineCounters& counters) {
  using Clock = std::chrono::steady_clock;
  for (std::size_t i = 0; i < std::size(kSteps); ++i) {
    StepCounters& step = counters[i];
    const auto begin = Clock::now();
    ++step.docs_in;
    Verdict verdict = kSteps[i].run(page, worker, options);
    step.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    if (!verdict.kept()) {
      ++step.dropped[static_cast<std::size_t>(verdict.reason)];
      return verdict;
    }
    ++step.kept;
  }
  return Verdict::keep();
}

Hash128 document_id(const WarcRecord& record, const std::string& source_file) {
  return xxh3_128(record.id.empty() ? fmt::format("{}:{}", source_file, record.offset) : record.id);
}

Document make_document(PageInWork&& page) {
  Document d;
  d.id = document_id(page.record, page.source_file);
  d.url = std::move(page.record.url);
  d.date = std::move(page.record.date);
  d.text = std::move(page.extraction.text);
  d.language = primary_language(page.extraction.html_lang);
  d.source_file = std::move(page.source_file);
  d.source_offset = page.record.offset;
  d.source_bytes = page.record.stored_bytes;
  d.metadata.title = std::move(page.extraction.title);
  d.metadata.html_lang = std::move(page.extraction.html_lang);
  d.metadata.charset = std::move(page.decoded.encoding);
  d.metadata.charset_declared = std::move(page.decoded.declared);
  d.metadata.charset_source = std::move(page.decoded.source);
  d.metadata.mime = std::move(page.mime);
  d.metadata.edits = page.edits;
  d.metadata.pii = page.pii;
  d.metadata.extraction = page.extraction.way;
  d.metadata.confidence = page.extraction.confidence;
  d.metadata.replaced = page.decoded.replaced;
  d.metadata.http_status = page.payload.status;
  d.metadata.truncated =
      page.record.truncated || page.payload.truncated || page.extraction.truncated;
  d.metadata.payload_bytes = page.payload.body.size();
  return d;
}

}  // namespace sx
