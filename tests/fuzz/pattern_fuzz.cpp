#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sextant/token/split_rule.h"

/// The bytes up to the first newline are a pattern, the rest a text: the pieces tile it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t end = all.find('\n');
  if (end == std::string_view::npos) return 0;
  const auto rule = sx::SplitRule::from_pattern(all.substr(0, end));
  if (!rule.ok()) return 0;
  const std::string_view text = all.substr(end + 1);
  sx::PieceSplitter splitter(*rule);
  std::size_t done = 0;
  const auto cut = sx::for_each_piece(splitter, text, [&](std::string_view piece) {
    if (piece.empty() || piece.data() != text.data() + done) std::abort();
    done += piece.size();
  });
  if (cut.ok() && done != text.size()) std::abort();
  return 0;
}
