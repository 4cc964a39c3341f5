#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/token/token_id.h"
#include "sextant/token/vocab.h"

namespace sx {

/// Finds special tokens in text: leftmost, and the longest of those that begin at one place.
/// Threads: const calls are safe.
class SpecialScanner {
 public:
  struct Match {
    std::size_t begin;
    std::size_t end;
    TokenId id;
  };

  SpecialScanner() = default;
  /// Looks for all of `specials`, in any order.
  explicit SpecialScanner(std::vector<SpecialToken> specials);

  /// First match at or after `from`; nullopt if there is none.
  std::optional<Match> find(std::string_view text, std::size_t from) const;
  bool empty() const { return specials_.empty(); }

 private:
  std::vector<SpecialToken> specials_;  // longest first
  std::array<bool, 256> first_{};       // bytes that begin one
};

}  // namespace sx
