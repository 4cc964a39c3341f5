#include "apps/sextant/crawl_inspect.h"

#include <cstdio>

#include <fmt/format.h>

#include "apps/program/program.h"
#include "sextant/crawl/pipeline.h"
#include "sextant/text/layout_text.h"

namespace sx {

namespace {

/// Control characters of an archive must not reach a terminal.
std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  for (const char c : text.substr(0, max_bytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  if (text.size() > max_bytes) out += "...";
  return out;
}

WarcReader open_archive(const fs::path& path, const CrawlOptions& options) {
  WarcLimits limits;
  limits.max_block_bytes = options.max_payload_bytes;
  return value_or_throw(WarcReader::open(path, limits), "ls -l " + path.string());
}

std::string flags_of(const WarcRecord& record) {
  std::string flags;
  if (record.truncated) flags += " truncated";
  if (record.clipped) flags += " clipped";
  if (record.too_large) flags += " too-large";
  if (record.quirks > 0) flags += fmt::format(" quirks={}", record.quirks);
  return flags;
}

std::string line_of(std::uint64_t ordinal, const WarcRecord& record) {
  std::string status = "-";
  if (record.type == WarcType::kResponse && record.block.size() > 12)
    status = printable(record.block.substr(9, 3), 3);
  return fmt::format("{:>6} {:>12} {:>10} {:<12} {:>4} {}{}\n", ordinal, record.offset,
                     record.declared_bytes, to_string(record.type), status,
                     printable(record.url, 200), flags_of(record));
}

std::string header_of(const WarcRecord& record) {
  std::string out = fmt::format("offset {}, {} stored bytes, block {} bytes{}\n{}\n", record.offset,
                                record.stored_bytes, record.block.size(), flags_of(record),
                                printable(record.version, 40));
  for (const auto& [name, value] : record.fields)
    out += fmt::format("{}: {}\n", printable(name, 200), printable(value, 4000));
  return out;
}

/// The tree as indented lines.
std::string dom_outline(DomNode document) {
  std::string out;
  std::size_t depth = 0;
  DomNode node = document.first_child();
  while (node) {
    out.append(2 * std::min<std::size_t>(depth, 60), ' ');
    switch (node.kind()) {
      case NodeKind::kText: out += fmt::format("\"{}\"", printable(node.text(), 100)); break;
      case NodeKind::kComment:
        out += fmt::format("<!-- {} -->", printable(node.text(), 100));
        break;
      case NodeKind::kDoctype:
        out += fmt::format("<!DOCTYPE {}>", printable(node.doctype().name, 40));
        break;
      default:
        out += fmt::format("<{}", printable(node.name(), 60));
        for (const auto& [name, value] : node.attributes())
          out += fmt::format(" {}=\"{}\"", printable(name, 60), printable(value, 60));
        out += ">";
    }
    out += '\n';
    if (node.first_child()) {
      node = node.first_child();
      ++depth;
      continue;
    }
    while (node && node != document && !node.next()) {
      node = node.parent();
      --depth;
    }
    node = !node || node == document ? DomNode() : node.next();
  }
  return out;
}

int show_record(WarcRecord record, const std::string& stage, const std::string& path,
                const CrawlOptions& options) {
  if (stage == "header") {
    print(header_of(record));
    return 0;
  }
  if (stage == "raw") {
    print(record.block);
    return 0;
  }
  PageWorker worker;
  PipelineCounters counters{};
  PageInWork page;
  page.record = std::move(record);
  page.source_file = path;
  const Verdict verdict = run_page(page, worker, options, counters);
  if (stage == "dom" && worker.parsed.document) {
    print(dom_outline(worker.parsed.document));
    return 0;
  }
  if (!verdict.kept()) {
    print(
        fmt::format("dropped: {} {}\n", to_string(verdict.reason), printable(verdict.value, 200)));
    return 0;
  }
  print(stage == "dom" ? "plain text, no tree\n" : page.extraction.text + "\n");
  return 0;
}

}  // namespace

int run_crawl_inspect(const Invocation& invocation) {
  const fs::path path = invocation.inputs.front();
  CrawlOptions options = crawl_options(invocation.recipe.get());
  WarcReader reader = open_archive(path, options);
  const bool one = invocation.has("record");
  const std::int64_t wanted = invocation.integer("record", -1);
  if (!one)
    print(fmt::format("{:>6} {:>12} {:>10} {:<12} {:>4} {}\n", "record", "offset", "block", "type",
                      "http", "url"));
  std::int64_t ordinal = 0;
  std::uint64_t damaged = 0;
  for (;; ++ordinal) {
    auto record = reader.next();
    if (!record.ok()) {
      ++damaged;
      if (!one || ordinal == wanted) {
        print(fmt::format("{:>6} {:>12} {:>10} damaged: {}\n", ordinal, reader.last_gap().offset,
                          reader.last_gap().bytes, reader.last_gap().cause));
      }
      if (one && ordinal == wanted) return 0;
      continue;
    }
    if (!record->has_value()) break;
    if (!one)
      print(line_of(static_cast<std::uint64_t>(ordinal), **record));
    else if (ordinal == wanted)
      return show_record(std::move(**record), invocation.text("stage", "header"), path.string(),
                         options);
  }
  if (!one) {
    print(fmt::format("{} records, {} damaged places, {} trailing bytes\n",
                      ordinal - static_cast<std::int64_t>(damaged), damaged,
                      reader.trailing_bytes()));
    return 0;
  }
  throw ConfigError(Diagnostic{.number = 3,
                               .what = fmt::format("there is no record {}", wanted),
                               .where = path.string(),
                               .rule = fmt::format("records are 0 to {}", ordinal - 1),
                               .next = "sextant crawl inspect " + path.string()});
}

int run_trace_doc(const Invocation& invocation, const std::vector<fs::path>& inputs) {
  const std::string wanted = invocation.text("trace-doc");
  const CrawlOptions options = crawl_options(invocation.recipe.get());
  for (const fs::path& path : inputs) {
    WarcReader reader = open_archive(path, options);
    for (;;) {
      auto record = reader.next();
      if (!record.ok()) continue;
      if (!record->has_value()) break;
      if (document_id(**record, path.string()).hex() != wanted && (*record)->id != wanted) continue;
      PageWorker worker;
      PageInWork page;
      page.record = std::move(**record);
      page.source_file = path.string();
      print(fmt::format("{}\n{}", path.string(), header_of(page.record)));
      for (const PageStep& step : page_steps()) {
        const Verdict verdict = step.run(page, worker, options);
        print(fmt::format("step {:<8} {} {}\n", step.name, to_string(verdict.reason),
                          printable(verdict.value, 200)));
        if (std::string_view(step.name) == "payload") {
          print(fmt::format("     status {}, {}, body {} bytes, {} quirks\n", page.payload.status,
                            printable(page.mime, 80), page.payload.body.size(),
                            page.payload.quirks));
        } else if (std::string_view(step.name) == "decode") {
          print(fmt::format("     {} by {}, declared \"{}\", {} replaced\n", page.decoded.encoding,
                            page.decoded.source, printable(page.decoded.declared, 60),
                            page.decoded.replaced));
        } else if (std::string_view(step.name) == "parse" && page.is_html) {
          print(fmt::format("     {} nodes, {} bytes of tree\n", worker.parsed.nodes,
                            worker.parsed.memory_bytes));
        }
        if (!verdict.kept()) return 0;
      }
      print(fmt::format("title \"{}\", lang \"{}\", {} bytes of text\n\n{}\n",
                        printable(page.extraction.title, 200),
                        printable(page.extraction.html_lang, 40), page.extraction.text.size(),
                        page.extraction.text));
      return 0;
    }
  }
  throw ConfigError(
      Diagnostic{.number = 3,
                 .what = fmt::format("no record has the id {}", printable(wanted, 80)),
                 .where = "--trace-doc",
                 .rule = "an id is the 32 hex digits of a document, or a WARC-Record-ID",
                 .next = "sextant crawl inspect " + inputs.front().string()});
}

}  // namespace sx
