#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/token/pattern.h"
#include "sextant/token/splitter.h"

namespace sx {

/// How a vocabulary cuts text into pieces: a family with a matcher of its own, or any pattern run
/// by PCRE2. A value; copies share the compiled pattern.
class SplitRule {
 public:
  SplitRule(SplitFamily family = SplitFamily::kNone);  // NOLINT: a family is a rule
  /// The family whose pattern it is, else the pattern compiled. "" is kNone.
  /// Errors: those of Pattern::compile.
  static Result<SplitRule> from_pattern(std::string_view pattern);

  SplitFamily family() const { return family_; }
  /// "" for kNone.
  std::string_view pattern() const;
  const Pattern* compiled() const { return pattern_ ? &*pattern_ : nullptr; }

 private:
  SplitFamily family_;
  std::optional<Pattern> pattern_;
};

/// Cuts segments by one rule, many pieces a call. Pieces tile the segment: what a pattern does not
/// match is a piece as well. Holds one thread's memory.
class PieceSplitter {
 public:
  explicit PieceSplitter(const SplitRule& rule);

  /// Begins a segment; the bytes stay the caller's and must live until the last `next`.
  /// Errors: those of Pattern::find_all.
  Result<void> start(std::string_view segment);
  /// Fills `ends` with the ends of the next pieces, as offsets from `base()` before the call, and
  /// moves on behind the last; gives their number, 0 at the end of the segment.
  std::size_t next(std::span<std::uint32_t> ends);
  /// Place of the segment where the next piece begins.
  std::size_t base() const { return pos_; }

 private:
  SplitRule rule_;
  std::string_view segment_;
  std::size_t pos_ = 0;
  std::vector<Pattern::Span> matches_;  // of a pattern: all of the segment's
  std::vector<std::size_t> ends_;
  std::size_t next_end_ = 0;
};

/// Calls on_piece(bytes) over the pieces of `segment`.
/// Errors: those of PieceSplitter::start.
template <class OnPiece>
Result<void> for_each_piece(PieceSplitter& splitter, std::string_view segment, OnPiece on_piece) {
  SX_TRY_VOID(splitter.start(segment));
  std::uint32_t ends[256];
  while (true) {
    const std::size_t base = splitter.base();
    const std::size_t count = splitter.next(ends);
    if (count == 0) return {};
    std::size_t begin = 0;
    for (std::size_t i = 0; i < count; ++i) {
      on_piece(segment.substr(base + begin, ends[i] - begin));
      begin = ends[i];
    }
  }
}

}  // namespace sx
