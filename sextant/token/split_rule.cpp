#include "sextant/token/split_rule.h"

#include "sextant/base/check.h"
#include "sextant/token/char_scan.h"
#include "sextant/token/split_vector.h"

namespace sx {
namespace {

constexpr std::size_t kFarthestEnd = std::size_t{1} << 31;

}  // namespace

SplitRule::SplitRule(SplitFamily family) : family_(family) {
  SX_CHECK(family != SplitFamily::kPattern, "a pattern rule is made by from_pattern");
}

Result<SplitRule> SplitRule::from_pattern(std::string_view pattern) {
  if (const auto family = family_of_pattern(pattern)) return SplitRule(*family);
  SX_TRY(Pattern compiled, Pattern::compile(pattern));
  SplitRule rule;
  rule.family_ = SplitFamily::kPattern;
  rule.pattern_ = std::move(compiled);
  return rule;
}

std::string_view SplitRule::pattern() const {
  return pattern_ ? std::string_view(pattern_->text()) : split_pattern(family_);
}

PieceSplitter::PieceSplitter(const SplitRule& rule) : rule_(rule) {}

Result<void> PieceSplitter::start(std::string_view segment) {
  segment_ = segment;
  pos_ = 0;
  next_end_ = 0;
  ends_.clear();
  if (rule_.family() != SplitFamily::kPattern) return {};
  matches_.clear();
  SX_TRY_VOID(rule_.compiled()->find_all(segment, matches_));
  std::size_t done = 0;
  for (const Pattern::Span& match : matches_) {
    // An invalid byte stands alone; other text between matches is one piece.
    while (done < match.begin) {
      std::size_t end = done;
      while (end < match.begin && scan_char(segment, end).valid)
        end += scan_char(segment, end).size;
      done = end == done ? done + 1 : end;
      ends_.push_back(done);
    }
    ends_.push_back(match.end);
    done = match.end;
  }
  while (done < segment.size()) {
    std::size_t end = done;
    while (end < segment.size() && scan_char(segment, end).valid)
      end += scan_char(segment, end).size;
    done = end == done ? done + 1 : end;
    ends_.push_back(done);
  }
  return {};
}

std::size_t PieceSplitter::next(std::span<std::uint32_t> ends) {
  if (rule_.family() != SplitFamily::kPattern) {
    const std::size_t count = split_many(rule_.family(), segment_, pos_, ends);
    if (count != 0) pos_ += ends[count - 1];
    return count;
  }
  std::size_t count = 0;
  const std::size_t base = pos_;
  while (count < ends.size() && next_end_ < ends_.size() &&
         ends_[next_end_] - base <= kFarthestEnd) {
    pos_ = ends_[next_end_++];
    ends[count++] = static_cast<std::uint32_t>(pos_ - base);
  }
  SX_CHECK(count != 0 || next_end_ == ends_.size(), "a piece of more than 2 GiB");
  return count;
}

}  // namespace sx
