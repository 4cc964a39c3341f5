#pragma once

#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace sx {

/// A set of characters as sorted runs, with a table for ASCII.
class CharacterSet {
 public:
  using Runs = std::vector<std::pair<char32_t, char32_t>>;
  explicit CharacterSet(Runs runs);
  /// From texts of one character each; longer ones are left out.
  explicit CharacterSet(const std::vector<std::string_view>& texts);

  bool contains(char32_t c) const;

 private:
  void fill_ascii();
  Runs runs_;
  std::array<bool, 128> ascii_{};
};

/// gen/word_rules.inc, made by tools/gen_word_rules.py.
struct WordTables {
  CharacterSet alpha, lower, upper, icons;
  CharacterSet punctuation, quotes, sentence_ends, terminal, peer_punctuation;
  std::vector<std::string_view> currency, units, hyphens;
  /// Words with a cut of their own, pieces joined by U+001F; sorted.
  std::vector<std::string_view> exceptions;
};
const WordTables& word_tables();

}  // namespace sx
