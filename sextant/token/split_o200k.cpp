#include "sextant/token/split_runs.h"
#include "sextant/token/splitter.h"

namespace sx::detail {
namespace {

using unicode_class::kLetter;
using unicode_class::kLower;
using unicode_class::kMark;
using unicode_class::kNewline;
using unicode_class::kNumber;
using unicode_class::kOtherLetter;
using unicode_class::kUpper;

// The pattern's two sets; letters without case and marks are in both.
constexpr std::uint8_t kHead = kUpper | kOtherLetter | kMark;
constexpr std::uint8_t kBody = kLower | kOtherLetter | kMark;

// [head]*[body]+ : where the greedy head leaves nothing for the body it gives characters back, last
// first.
std::size_t match_word(std::string_view segment, std::size_t pos) {
  std::size_t end = pos, after_last_body = pos;
  for (ClassedChar c = class_at(segment, end); c.is(kHead); c = class_at(segment, end)) {
    end += c.size;
    if (c.is(kBody)) after_last_body = end;
  }
  if (class_at(segment, end).is(kBody)) return run_end(segment, end, kBody);
  return after_last_body;
}

// [head]+[body]*
std::size_t match_capitals(std::string_view segment, std::size_t pos) {
  const std::size_t end = run_end(segment, pos, kHead);
  return end == pos ? pos : run_end(segment, end, kBody);
}

// Both word alternatives: with the optional character before the word first, then without it.
std::size_t match_letters(std::string_view segment, std::size_t pos, ClassedChar first) {
  const bool may_lead = !first.is(kNewline | kLetter | kNumber);
  const std::size_t behind = pos + first.size;
  for (auto match : {match_word, match_capitals}) {
    if (may_lead) {
      if (const std::size_t end = match(segment, behind); end != behind) return end;
    }
    if (const std::size_t end = match(segment, pos); end != pos) return end;
  }
  return pos;
}

}  // namespace

std::size_t split_next_o200k(std::string_view segment, std::size_t pos) {
  const ClassedChar first = class_at(segment, pos);
  if (const std::size_t end = match_letters(segment, pos, first); end != pos) {
    return match_contraction_folded(segment, end);
  }
  if (first.is(kNumber)) return match_digits(segment, pos);
  std::size_t end = pos;
  if (first.is_other()) {
    end = other_run_end(segment, pos);
  } else if (segment[pos] == ' ' && class_at(segment, pos + 1).is_other()) {
    end = other_run_end(segment, pos + 1);
  }
  if (end == pos) return match_space_with_newlines(segment, pos);
  while (end < segment.size() &&
         (segment[end] == '\r' || segment[end] == '\n' || segment[end] == '/'))
    ++end;
  return end;
}

}  // namespace sx::detail
