#include "apps/sextant/cmd_tokenize.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <nlohmann/json.hpp>

#include "apps/sextant/tokenize_setup.h"
#include "sextant/base/check.h"
#include "sextant/recipe/key_value.h"

namespace sx {

Tokenizer load_tokenizer(const Invocation& invocation) {
  const TokenizerKeys& keys = invocation.recipe->tokenizer;
  if (keys.kind == TokenizerKind::kBytes) return Tokenizer::bytes();
  if (keys.path.empty()) {
    throw ConfigError(
        Diagnostic{.number = 7,
                   .what = "no tokenizer is named",
                   .where = "tokenizer.path",
                   .rule = "a folder of `tokenize train`, a .tiktoken file, a tokenizer.json, a "
                           "SentencePiece .model, or the word bytes",
                   .next = "--tokenizer PATH, or --tokenizer bytes"});
  }
  return load_tokenizer(keys.path, to_word(keys.kind));
}

Tokenizer load_tokenizer(const std::string& path, const char* kind) {
  auto tokenizer = Tokenizer::load(path, kind);
  if (tokenizer.ok()) return std::move(tokenizer).value();
  Diagnostic fault = to_diagnostic(tokenizer.error(), "another file, or --set tokenizer.kind=KIND");
  if (tokenizer.error().kind == ErrorKind::kUnsupported) {
    fault.number = 40;
    fault.rule = "a part of a tokenizer file that is not handled is a fault, never left out";
  }
  throw_fault(std::move(fault));
}

EncodeOptions encode_options(const Invocation& invocation) {
  EncodeOptions options;
  switch (invocation.recipe->tokenizer.special) {
    case SpecialTokens::kText: options.special = SpecialHandling::kText; break;
    case SpecialTokens::kAllow: options.special = SpecialHandling::kAllow; break;
    case SpecialTokens::kError: options.special = SpecialHandling::kError; break;
  }
  switch (invocation.recipe->tokenizer.invalid) {
    case InvalidBytes::kBytes: options.invalid = InvalidHandling::kBytes; break;
    case InvalidBytes::kReplace: options.invalid = InvalidHandling::kReplace; break;
    case InvalidBytes::kError: options.invalid = InvalidHandling::kError; break;
  }
  options.with_template = invocation.has("template");
  return options;
}

void fail(const Error& error, const std::string& next) { throw_fault(to_diagnostic(error, next)); }

bool print_result(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return true;
  if (errno == EPIPE) return false;
  fail(Error{ErrorKind::kIo, std::string("cannot write: ") + std::strerror(errno),
             "standard output"},
       "df -h .");
}

int run_tokenize(const Invocation& invocation) {
  struct Sub {
    const char* name;
    int (*run)(const Invocation&);
  };
  const Sub subs[] = {{"pack", tokenize_pack},     {"train", tokenize_train},
                      {"encode", tokenize_encode}, {"decode", tokenize_decode},
                      {"count", tokenize_count},   {"inspect", tokenize_inspect},
                      {"check", tokenize_check},   {"convert", tokenize_convert}};
  for (const Sub& sub : subs) {
    if (invocation.sub->name == sub.name) return sub.run(invocation);
  }
  SX_CHECK(false, "the verb table names tokenize {}, which has no code", invocation.sub->name);
  return 1;
}

std::string as_json(std::string_view bytes) {
  return nlohmann::json(std::string(bytes))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace sx
