#include "sextant/text/word_tables.h"

#include <algorithm>

#include "sextant/text/unicode.h"

namespace sx {

namespace {

#define SX_RANGES(name, ...)                               \
  const CharacterSet::Runs& name() {                       \
    static const CharacterSet::Runs kRuns = {__VA_ARGS__}; \
    return kRuns;                                          \
  }
#define SX_TEXTS(name, ...)                                            \
  const std::vector<std::string_view>& name() {                        \
    static const std::vector<std::string_view> kTexts = {__VA_ARGS__}; \
    return kTexts;                                                     \
  }
#include "sextant/text/gen/word_rules.inc"
#undef SX_RANGES
#undef SX_TEXTS

}  // namespace

CharacterSet::CharacterSet(Runs runs) : runs_(std::move(runs)) { fill_ascii(); }

CharacterSet::CharacterSet(const std::vector<std::string_view>& texts) {
  for (const std::string_view text : texts) {
    std::size_t pos = 0;
    const char32_t c = next_code_point(text, pos);
    if (pos == text.size()) runs_.emplace_back(c, c);
  }
  std::sort(runs_.begin(), runs_.end());
  fill_ascii();
}

void CharacterSet::fill_ascii() {
  for (const auto& [first, last] : runs_) {
    for (char32_t c = first; c <= last && c < 128; ++c) ascii_[c] = true;
  }
}

bool CharacterSet::contains(char32_t c) const {
  if (c < 128) return ascii_[c];
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), c,
                                    [](char32_t x, const auto& r) { return x < r.first; });
  return run != runs_.begin() && c <= std::prev(run)->second;
}

const WordTables& word_tables() {
  static const WordTables kTables = {CharacterSet(kSpacyAlpha()),
                                     CharacterSet(kSpacyLower()),
                                     CharacterSet(kSpacyUpper()),
                                     CharacterSet(kSpacyIcons()),
                                     CharacterSet(kSpacyPunctuation()),
                                     CharacterSet(kSpacyQuotes()),
                                     CharacterSet(kSentenceEnds()),
                                     CharacterSet(kTerminalPunctuation()),
                                     CharacterSet(kPeerPunctuation()),
                                     kSpacyCurrency(),
                                     kSpacyUnits(),
                                     kSpacyHyphens(),
                                     kSpacyExceptions()};
  return kTables;
}

}  // namespace sx
