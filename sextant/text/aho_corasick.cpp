#include "sextant/text/aho_corasick.h"

#include <queue>

#include "sextant/base/check.h"
#include "sextant/text/ascii.h"

namespace sx {

AhoCorasick::AhoCorasick(const std::vector<std::string>& words) {
  std::uint8_t used = 0;  // symbol 0 = a byte of no word
  for (const std::string& word : words) {
    SX_CHECK(!word.empty(), "an empty word occurs everywhere");
    for (const char c : word) {
      std::uint8_t& symbol = symbol_[static_cast<unsigned char>(to_lower(c))];
      if (symbol == 0) symbol = ++used;
      SX_CHECK(used < kSymbols, "words of more than {} different bytes", kSymbols - 1);
    }
  }
  for (int c = 'A'; c <= 'Z'; ++c) symbol_[c] = symbol_[c + 32];
  const auto add_state = [&] {
    next_.resize(next_.size() + kSymbols, 0);
    first_output_.push_back(-1);
    return static_cast<std::uint32_t>(first_output_.size() - 1);
  };
  add_state();
  for (std::size_t index = 0; index < words.size(); ++index) {
    std::uint32_t state = 0;
    for (const char c : words[index]) {
      const std::size_t cell = state * kSymbols + symbol_[static_cast<unsigned char>(c)];
      if (next_[cell] == 0) {
        const std::uint32_t fresh = add_state();
        next_[cell] = fresh;
      }
      state = next_[cell];
    }
    outputs_.push_back({index, first_output_[state]});
    first_output_[state] = static_cast<std::int32_t>(outputs_.size() - 1);
  }
  std::vector<std::uint32_t> fail(first_output_.size(), 0);
  std::queue<std::uint32_t> queue;
  for (std::size_t s = 0; s < kSymbols; ++s) {
    if (next_[s] != 0) queue.push(next_[s]);
  }
  while (!queue.empty()) {
    const std::uint32_t state = queue.front();
    queue.pop();
    // The longest proper suffix's matches are matches here too; its list stands behind our own.
    std::int32_t* end = &first_output_[state];
    while (*end >= 0) end = &outputs_[static_cast<std::size_t>(*end)].next;
    *end = first_output_[fail[state]];
    for (std::size_t s = 0; s < kSymbols; ++s) {
      std::uint32_t& next = next_[state * kSymbols + s];
      const std::uint32_t other = next_[fail[state] * kSymbols + s];
      if (next == 0) {
        next = other;
      } else {
        fail[next] = other;
        queue.push(next);
      }
    }
  }
}

}  // namespace sx
