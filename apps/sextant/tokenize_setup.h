#pragma once

#include <string>

#include "sextant/recipe/command_line.h"
#include "sextant/token/tokenizer.h"

namespace sx {

/// What the sub-verbs of `tokenize` share.

/// The tokenizer that tokenizer.path and tokenizer.kind name. Throws ConfigError, IoError.
Tokenizer load_tokenizer(const Invocation& invocation);
/// The same from a path; `kind` as Tokenizer::load.
Tokenizer load_tokenizer(const std::string& path, const char* kind);
/// tokenizer.special, tokenizer.invalid and --template as the encoder takes it.
EncodeOptions encode_options(const Invocation& invocation);
/// Ends the verb with the four lines that tell of `error`.
[[noreturn]] void fail(const Error& error, const std::string& next);
/// Result on standard output; a reader that went away is no fault. False when nobody reads any
/// more.
bool print_result(std::string_view text);

/// The bytes as a JSON string, quotes included; what is not UTF-8 as U+FFFD.
std::string as_json(std::string_view bytes);

int tokenize_train(const Invocation& invocation);
int tokenize_pack(const Invocation& invocation);
int tokenize_encode(const Invocation& invocation);
int tokenize_decode(const Invocation& invocation);
int tokenize_count(const Invocation& invocation);
int tokenize_inspect(const Invocation& invocation);
int tokenize_check(const Invocation& invocation);
int tokenize_convert(const Invocation& invocation);

}  // namespace sx
