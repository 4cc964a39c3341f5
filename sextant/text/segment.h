#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace sx {

/// Ways to cut text into words, lines and sentences. Pieces are views into `text`, which must be
/// valid UTF-8 and outlive them.
using Pieces = std::vector<std::string_view>;

/// Runs of characters that is_space() does not accept: Python's str.split().
Pieces split_words(std::string_view text);

/// Python's str.splitlines(): cuts at \n \r\n \r \v \f U+001C-1E U+0085 U+2028 U+2029; no piece
/// behind a cut at the end.
Pieces split_lines(std::string_view text);

/// Cuts at every '\n'; "" gives one empty piece.
Pieces split_newlines(std::string_view text);

/// Cuts at every run of `min_run` or more '\n'.
Pieces split_newline_runs(std::string_view text, std::size_t min_run);

/// Words of text in any script for counting: runs of letters, marks and digits, with single
/// apostrophes, full stops, commas and underscores between them; each ideograph, kana or character
/// of a script written without spaces (Thai, Lao, Khmer, Burmese) counts as half a word, so two
/// neighbours make one piece. A cheap stand-in for word breaks by dictionary.
Pieces split_any_script(std::string_view text);

/// Words as fastText sees them: cuts at space, \n \r \t \v \f \0 only.
Pieces split_fasttext(std::string_view text);

/// Words of spaCy's blank English pipeline without its white-space tokens. Not reproduced: special
/// cases that span several tokens ("a.m.," is cut before the comma only when it stands alone).
/// Source: spaCy 3.8, lang/punctuation.py, lang/en, tokenizer.pyx; gen/word_rules.inc.
Pieces split_spacy_english(std::string_view text);

/// Number of sentences that spaCy's rule-based sentencizer finds after split_spacy_english().
std::size_t count_spacy_sentences(std::string_view text);

/// True for the marks that end a sentence in some script (159 characters).
bool is_terminal_punctuation(char32_t c);
/// True for what datatrove counts as a symbol: its punctuation list, controls, terminal marks.
bool is_peer_symbol(char32_t c);

}  // namespace sx
