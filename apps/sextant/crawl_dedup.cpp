#include "apps/sextant/crawl_dedup.h"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "apps/program/program.h"
#include "sextant/base/hash.h"
#include "sextant/crawl/exact_dedup.h"
#include "sextant/crawl/minhash_dedup.h"
#include "sextant/text/utf8.h"

namespace sx {

namespace {

Result<FileDedupReport> dedup_near(const std::vector<fs::path>& inputs, const fs::path& folder,
                                   const NearDuplicateOptions& options) {
  SX_TRY_VOID(check_distinct_names(inputs));
  SX_TRY_VOID(make_dirs(folder));
  NearDuplicates search(options);
  FileDedupReport report;
  for (const fs::path& input : inputs) {
    SX_TRY(const std::string bytes, read_file(input));
    std::uint64_t replaced = 0;
    search.add(search.sketch(repair_utf8(bytes, replaced)), xxh3_64(input.filename().string()));
    ++report.files;
    ++report.pieces;
    report.bytes_in += bytes.size();
  }
  const std::vector<bool> keep = search.finish();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!keep[i]) {
      ++report.dropped;
      continue;
    }
    SX_TRY(const std::string bytes, read_file(inputs[i]));
    SX_TRY_VOID(write_file_atomic(folder / inputs[i].filename(), bytes));
    ++report.files_written;
    report.bytes_out += bytes.size();
  }
  return report;
}

NearDuplicateOptions near_options(const Invocation& invocation) {
  NearDuplicateOptions options;
  const std::int64_t hashes = invocation.integer("num-hashes", 112);
  const std::int64_t bands = invocation.integer("num-bands", 14);
  if (bands < 1 || hashes < bands || hashes % bands != 0 || invocation.integer("ngrams", 5) < 1) {
    throw ConfigError(
        Diagnostic{.number = 3,
                   .what = fmt::format("{} hashes cannot be cut into {} bands", hashes, bands),
                   .where = "--num-hashes, --num-bands, --ngrams",
                   .rule = "a signature is a whole number of bands, a shingle has a word or more",
                   .next = "sextant crawl dedup minhash FILE... --num-hashes 100 --num-bands 10"});
  }
  options.bands = static_cast<std::size_t>(bands);
  options.rows = static_cast<std::size_t>(hashes / bands);
  options.words = static_cast<std::size_t>(invocation.integer("ngrams", 5));
  options.jaccard = invocation.number("jaccard", 0.8);
  options.keep = KeepRule::kRandom;
  return options;
}

}  // namespace

int run_crawl_dedup(const Invocation& invocation) {
  const std::string kind = invocation.inputs.front();
  const std::vector<fs::path> inputs(invocation.inputs.begin() + 1, invocation.inputs.end());
  const fs::path folder = invocation.text("to", "deduped");
  Result<FileDedupReport> report = Error{ErrorKind::kInvalid, "", ""};
  if (kind == "line") {
    report = dedup_lines(inputs, folder);
  } else if (kind == "paragraph") {
    report = dedup_paragraphs(inputs, folder);
  } else if (kind == "document") {
    report = dedup_files(inputs, folder);
  } else if (kind == "minhash") {
    report = dedup_near(inputs, folder, near_options(invocation));
  } else {
    throw ConfigError(Diagnostic{.number = 3,
                                 .what = fmt::format("no kind is named \"{}\"", kind),
                                 .where = "sextant crawl dedup KIND",
                                 .rule = "kinds: line, paragraph, document, minhash",
                                 .next = "sextant crawl dedup line a.txt b.txt"});
  }
  if (!report.ok()) throw_fault(to_diagnostic(report.error(), "ls -l " + inputs.front().string()));
  if (invocation.json) {
    print(nlohmann::ordered_json{{"files", report->files},
                                 {"files_written", report->files_written},
                                 {"pieces", report->pieces},
                                 {"dropped", report->dropped},
                                 {"bytes_in", report->bytes_in},
                                 {"bytes_out", report->bytes_out}}
              .dump() +
          "\n");
  } else {
    print(fmt::format("{} of {} {}s dropped; {} of {} files in {}\n", report->dropped,
                      report->pieces, kind == "minhash" ? "document" : kind, report->files_written,
                      report->files, folder.string()));
  }
  return 0;
}

}  // namespace sx
