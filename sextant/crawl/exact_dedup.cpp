#include "sextant/crawl/exact_dedup.h"

#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "sextant/base/hash.h"
#include "sextant/text/unicode.h"

namespace sx {

namespace {

struct PieceHash {
  std::size_t operator()(const Hash128& h) const { return static_cast<std::size_t>(h.low); }
};

/// Calls `on_line(content, with its line end)` for each line.
void for_each_line(std::string_view text,
                   const std::function<void(std::string_view, std::string_view)>& on_line) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::size_t length = end == std::string_view::npos ? text.size() : end + 1;
    std::string_view content = text.substr(0, end);
    if (content.ends_with('\r')) content.remove_suffix(1);
    on_line(content, text.substr(0, length));
    text.remove_prefix(length);
  }
}

/// Calls `on_paragraph` for each run of lines with the empty lines behind it.
void for_each_paragraph(std::string_view text,
                        const std::function<void(std::string_view, std::string_view)>& on_piece) {
  std::size_t begin = 0;
  std::size_t content_end = 0;
  std::size_t pos = 0;
  bool behind = false;  // in the empty lines behind a paragraph
  for_each_line(text, [&](std::string_view content, std::string_view line) {
    const bool blank = strip(content).empty();
    if (!blank && behind) {
      on_piece(text.substr(begin, content_end - begin), text.substr(begin, pos - begin));
      begin = pos;
      behind = false;
    }
    if (!blank) content_end = pos + content.size();
    if (blank && content_end > begin) behind = true;
    pos += line.size();
  });
  if (pos > begin) {
    const std::size_t end = content_end > begin ? content_end : pos;
    on_piece(text.substr(begin, end - begin), text.substr(begin, pos - begin));
  }
}

/// What stays of a file's pieces, counted.
struct Kept {
  FileDedupReport& report;
  std::string text{};
  void add(std::string_view piece, bool stays) {
    ++report.pieces;
    if (stays)
      text += piece;
    else
      ++report.dropped;
  }
};

Result<void> write_result(const fs::path& folder, const fs::path& input, const std::string& text,
                          FileDedupReport& report) {
  SX_TRY_VOID(write_file_atomic(folder / input.filename(), text));
  ++report.files_written;
  report.bytes_out += text.size();
  return {};
}

}  // namespace

Result<void> check_distinct_names(const std::vector<fs::path>& inputs) {
  std::set<fs::path> names;
  for (const fs::path& input : inputs) {
    if (!names.insert(input.filename()).second)
      return Error{ErrorKind::kInvalid, "two inputs have the same file name", input.string()};
  }
  return {};
}

Result<FileDedupReport> dedup_lines(const std::vector<fs::path>& inputs, const fs::path& folder) {
  SX_TRY_VOID(check_distinct_names(inputs));
  FileDedupReport report;
  std::unordered_map<Hash128, std::uint32_t, PieceHash> times;
  for (const fs::path& input : inputs) {
    SX_TRY(const std::string text, read_file(input));
    ++report.files;
    report.bytes_in += text.size();
    for_each_line(text, [&](std::string_view content, std::string_view) {
      std::uint32_t& count = times[xxh3_128(content)];
      if (count < 2) ++count;
    });
  }
  SX_TRY_VOID(make_dirs(folder));
  for (const fs::path& input : inputs) {
    SX_TRY(const std::string text, read_file(input));
    Kept kept{report};
    for_each_line(text, [&](std::string_view content, std::string_view line) {
      kept.add(line, times[xxh3_128(content)] == 1);
    });
    SX_TRY_VOID(write_result(folder, input, kept.text, report));
  }
  return report;
}

Result<FileDedupReport> dedup_paragraphs(const std::vector<fs::path>& inputs,
                                         const fs::path& folder) {
  SX_TRY_VOID(check_distinct_names(inputs));
  SX_TRY_VOID(make_dirs(folder));
  FileDedupReport report;
  std::unordered_set<Hash128, PieceHash> seen;
  for (const fs::path& input : inputs) {
    SX_TRY(const std::string text, read_file(input));
    ++report.files;
    report.bytes_in += text.size();
    Kept kept{report};
    for_each_paragraph(text, [&](std::string_view content, std::string_view whole) {
      kept.add(whole, seen.insert(xxh3_128(content)).second);
    });
    SX_TRY_VOID(write_result(folder, input, kept.text, report));
  }
  return report;
}

Result<FileDedupReport> dedup_files(const std::vector<fs::path>& inputs, const fs::path& folder) {
  SX_TRY_VOID(check_distinct_names(inputs));
  SX_TRY_VOID(make_dirs(folder));
  FileDedupReport report;
  std::unordered_set<Hash128, PieceHash> seen;
  for (const fs::path& input : inputs) {
    SX_TRY(const std::string text, read_file(input));
    ++report.files;
    ++report.pieces;
    report.bytes_in += text.size();
    if (seen.insert(xxh3_128(text)).second)
      SX_TRY_VOID(write_result(folder, input, text, report));
    else
      ++report.dropped;
  }
  return report;
}

}  // namespace sx
