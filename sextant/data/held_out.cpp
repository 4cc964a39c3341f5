#include "sextant/data/held_out.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "sextant/base/hash.h"
#include "sextant/data/indexed_dataset.h"
#include "sextant/token/tokenizer.h"

namespace sx {

namespace {

constexpr std::size_t kLongLine = 40;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// Calls visit(line with its end) for each line.
template <class Visit>
void each_line(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::size_t size = end == std::string_view::npos ? text.size() : end + 1;
    visit(text.substr(0, size));
    text.remove_prefix(size);
  }
}

Result<void> each_document(const std::string& prefix, const Tokenizer& tokenizer,
                           std::int32_t eod_id,
                           const std::function<void(std::string_view)>& visit) {
  SX_TRY(IndexedDataset pair, IndexedDataset::open(prefix));
  SX_TRY(const auto source, make_indexed_source(std::move(pair)));
  std::vector<std::int32_t> tokens;
  for (std::uint64_t k = 0; k < source->num_documents(); ++k) {
    tokens.resize(source->document_start(k + 1) - source->document_start(k));
    SX_TRY_VOID(source->read(source->document_start(k), tokens));
    if (!tokens.empty() && eod_id >= 0 && tokens.back() == eod_id) tokens.pop_back();
    const std::vector<TokenId> ids(tokens.begin(), tokens.end());
    SX_TRY(const std::string text, tokenizer.decode(ids));
    visit(text);
  }
  return {};
}

}  // namespace

std::optional<std::uint64_t> long_line_hash(std::string_view line) {
  while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
  while (!line.empty() && is_space(line.back())) line.remove_suffix(1);
  if (line.size() <= kLongLine) return std::nullopt;
  // Every byte but a continuation byte begins a code point.
  const auto points =
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
  if (static_cast<std::size_t>(points) <= kLongLine) return std::nullopt;
  return xxh3_64(line);
}

void LineSet::add_lines(std::string_view text) {
  each_line(text, [&](std::string_view line) {
    if (const auto hash = long_line_hash(line)) hashes_.push_back(*hash);
  });
}

void LineSet::seal() {
  std::sort(hashes_.begin(), hashes_.end());
  hashes_.erase(std::unique(hashes_.begin(), hashes_.end()), hashes_.end());
}

bool LineSet::contains(std::uint64_t hash) const {
  return std::binary_search(hashes_.begin(), hashes_.end(), hash);
}

std::string remove_lines(std::string_view text, const LineSet& lines, std::uint64_t& num_removed,
                         std::uint64_t& bytes_removed) {
  std::string kept;
  kept.reserve(text.size());
  each_line(text, [&](std::string_view line) {
    const auto hash = long_line_hash(line);
    if (hash && lines.contains(*hash)) {
      ++num_removed;
      bytes_removed += line.size();
    } else {
      kept += line;
    }
  });
  return kept;
}

Result<std::uint64_t> count_shared_lines(const std::string& train_prefix,
                                         const std::string& heldout_prefix,
                                         const Tokenizer& tokenizer, std::int32_t eod_id) {
  LineSet heldout;
  SX_TRY_VOID(each_document(heldout_prefix, tokenizer, eod_id,
                            [&](std::string_view text) { heldout.add_lines(text); }));
  heldout.seal();
  std::uint64_t shared = 0, bytes = 0;
  SX_TRY_VOID(each_document(train_prefix, tokenizer, eod_id, [&](std::string_view text) {
    (void)remove_lines(text, heldout, shared, bytes);
  }));
  return shared;
}

}  // namespace sx
