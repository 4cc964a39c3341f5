#pragma once

#include <cstddef>
#include <string_view>

#include "sextant/token/char_scan.h"

/// Alternatives that several split rules share. Each takes the segment and a position and gives the
/// end of its match, or the position itself when it does not match.
namespace sx::detail {

/// (?i:'s|'t|'re|'ve|'m|'ll|'d) by simple case folding: U+017F (long s) counts as s.
std::size_t match_contraction_folded(std::string_view segment, std::size_t pos);

/// \s*[\r\n]+|\s+(?!\S)|\s+ for a position with a space character: up to the last CR or LF of the
/// run if it has one.
std::size_t match_space_with_newlines(std::string_view segment, std::size_t pos);

/// \s+(?!\S)|\s+: a run at the end whole, a run before a character without its last space, a single
/// space alone.
std::size_t match_space(std::string_view segment, std::size_t pos);

/// \p{N}{1,3}
std::size_t match_digits(std::string_view segment, std::size_t pos);

}  // namespace sx::detail
