#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/token/hf_json.h"

namespace sx {

/// The steps of a `tokenizer.json` that change or cut text, before and after the model.
/// Bytes outside well-formed UTF-8 pass through all of them unchanged.

/// `text` after all normalisers. Errors: those of Pattern::find_all.
Result<std::string> hf_normalize(const std::vector<HfNormalizer>& normalizers,
                                 std::string_view text);
/// True when normalising leaves every ASCII text as it is.
bool hf_keeps_ascii(const std::vector<HfNormalizer>& normalizers);

/// The pieces of `text` (as the model sees them: byte-level text where ByteLevel is among the
/// steps). `at_start`: the text begins where the whole input begins. Errors: those of
/// Pattern::find_all.
Result<std::vector<std::string>> hf_pre_tokenize(const std::vector<HfPreTokenizer>& steps,
                                                 std::string_view text, bool at_start);

/// Runs the decoders over the tokens' texts. Invalid UTF-8 is kept as bytes, where Hugging Face's
/// gives U+FFFD.
std::string hf_decode(const std::vector<HfDecoder>& decoders, std::vector<std::string> tokens);

/// White_Space, as the trimming flags of added tokens mean it: bytes of such characters at the end
/// (from the right) and at the start of `text`.
std::size_t hf_spaces_at_end(std::string_view text);
std::size_t hf_spaces_at_start(std::string_view text);
/// A word character (Alphabetic, M, Nd, Pc, Join_Control) right at the end or start.
bool hf_ends_with_word(std::string_view text);
bool hf_starts_with_word(std::string_view text);

}  // namespace sx
