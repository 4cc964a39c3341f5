#include "sextant/token/split_runs.h"
#include "sextant/token/splitter.h"

namespace sx::detail {
namespace {

// 's|'t|'re|'ve|'m|'ll|'d, case matters.
std::size_t match_contraction(std::string_view segment, std::size_t pos) {
  if (pos + 1 >= segment.size() || segment[pos] != '\'') return pos;
  const char a = segment[pos + 1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return pos + 2;
  if (pos + 2 >= segment.size()) return pos;
  const char b = segment[pos + 2];
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return pos + 3;
  return pos;
}

}  // namespace

std::size_t split_next_r50k(std::string_view segment, std::size_t pos) {
  if (const std::size_t end = match_contraction(segment, pos); end != pos) return end;
  // One U+0020 may stand before a run of letters, of numbers or of other characters.
  std::size_t body = pos;
  ClassedChar first = class_at(segment, pos);
  if (segment[pos] == ' ') {
    const ClassedChar after = class_at(segment, pos + 1);
    if (after.size != 0 && !after.is(unicode_class::kSpace)) {
      first = after;
      body = pos + 1;
    }
  }
  if (first.is(unicode_class::kSpace)) return match_space(segment, pos);
  if (first.is(unicode_class::kLetter)) return run_end(segment, body, unicode_class::kLetter);
  if (first.is(unicode_class::kNumber)) return run_end(segment, body, unicode_class::kNumber);
  return other_run_end(segment, body);
}

}  // namespace sx::detail
