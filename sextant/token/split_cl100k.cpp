#include "sextant/token/split_runs.h"
#include "sextant/token/splitter.h"

namespace sx::detail {
namespace {

template <bool kSingleDigits>
std::size_t split_next_gpt4_like(std::string_view segment, std::size_t pos) {
  if (const std::size_t end = match_contraction_folded(segment, pos); end != pos) return end;
  const ClassedChar first = class_at(segment, pos);
  if (first.is(unicode_class::kLetter)) return run_end(segment, pos, unicode_class::kLetter);
  if (first.is(unicode_class::kNumber))
    return kSingleDigits ? pos + first.size : match_digits(segment, pos);
  const std::size_t second_pos = pos + first.size;
  const ClassedChar second = class_at(segment, second_pos);
  // Any one character but CR, LF, letter and number joins the letters behind it.
  if (!first.is(unicode_class::kNewline) && second.is(unicode_class::kLetter)) {
    return run_end(segment, second_pos, unicode_class::kLetter);
  }
  std::size_t end = pos;
  if (first.is_other()) {
    end = other_run_end(segment, pos);
  } else if (segment[pos] == ' ' && second.is_other()) {
    end = other_run_end(segment, second_pos);
  }
  if (end == pos) return match_space_with_newlines(segment, pos);
  while (end < segment.size() && (segment[end] == '\r' || segment[end] == '\n')) ++end;
  return end;
}

}  // namespace

std::size_t split_next_cl100k(std::string_view segment, std::size_t pos) {
  return split_next_gpt4_like<false>(segment, pos);
}
std::size_t split_next_qwen2(std::string_view segment, std::size_t pos) {
  return split_next_gpt4_like<true>(segment, pos);
}

}  // namespace sx::detail
