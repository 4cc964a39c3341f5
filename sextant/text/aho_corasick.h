#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sx {

/// Finds any of many byte strings in one pass. Letters of ASCII are folded to lower case on both
/// sides. Immutable once built; may be used by several threads.
///
/// Source: Aho and Corasick, Efficient String Matching, CACM 18(6), 1975.
class AhoCorasick {
 public:
  /// `words` must not be empty strings; a word's index is what matches report.
  explicit AhoCorasick(const std::vector<std::string>& words);

  /// Calls `on_match(index of the word, position behind it)` for every occurrence.
  template <class OnMatch>
  void scan(std::string_view text, OnMatch on_match) const {
    std::uint32_t state = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      state = next_[state * kSymbols + symbol_[static_cast<unsigned char>(text[i])]];
      for (std::int32_t out = first_output_[state]; out >= 0; out = outputs_[out].next)
        on_match(outputs_[out].word, i + 1);
    }
  }

 private:
  static constexpr std::size_t kSymbols = 64;
  struct Output {
    std::size_t word;
    std::int32_t next;
  };
  std::uint8_t symbol_[256] = {};
  std::vector<std::uint32_t> next_;  // state x symbol
  std::vector<std::int32_t> first_output_;
  std::vector<Output> outputs_;
};

}  // namespace sx
