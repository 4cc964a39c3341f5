#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace sx {

/// The rule that cuts text into pieces before merging; merges never cross a piece's end.
///
/// r50k is the rule of GPT-2, cl100k of GPT-4 and Llama 3, o200k of GPT-4o, qwen2 is cl100k with
/// digits alone. kNone: the whole text is one piece. kPattern: a regular expression that has no
/// matcher written for it (`SplitRule` holds it).
enum class SplitFamily { kNone, kR50k, kCl100k, kO200k, kQwen2, kPattern };

/// "none", "r50k", "cl100k", "o200k", "qwen2", "pattern".
const char* to_string(SplitFamily family);
/// The reverse; "gpt2" is r50k, "llama3" is cl100k; a trailing "_base" is allowed. nullopt for
/// other names.
std::optional<SplitFamily> parse_split_family(std::string_view name);

/// The regular expression (PCRE syntax, Unicode classes) that the family's matcher stands for; ""
/// for kNone and kPattern.
std::string_view split_pattern(SplitFamily family);
/// The family whose pattern is exactly `pattern`; nullopt when it is none of the known ones.
std::optional<SplitFamily> family_of_pattern(std::string_view pattern);

/// End of the piece that begins at `pos`: the first alternative of the pattern that matches there,
/// as a leftmost-first backtracking engine finds it. Pieces tile the segment: calling on from each
/// end visits every byte once.
///
/// Inputs:  family   any but kPattern
///          segment  bytes; the end of the segment counts as end of text. A byte outside a
/// well-formed UTF-8 sequence
///                   is one character that is neither letter, number nor space.
///          pos      < segment.size(), 0 or an end returned before
/// Threads: safe. Cost: linear in the piece (cl100k, o200k: in the piece and the run of spaces
/// after it).
std::size_t split_next(SplitFamily family, std::string_view segment, std::size_t pos);

namespace detail {
std::size_t split_next_r50k(std::string_view segment, std::size_t pos);
std::size_t split_next_cl100k(std::string_view segment, std::size_t pos);
std::size_t split_next_qwen2(std::string_view segment, std::size_t pos);
std::size_t split_next_o200k(std::string_view segment, std::size_t pos);
}  // namespace detail

}  // namespace sx
