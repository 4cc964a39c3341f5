#include <fmt/format.h>

#include <cstdio>

#include "apps/sextant-train/commands.h"
#include "sextant/base/diagnostic.h"
#include "sextant/nn/generate.h"
#include "sextant/tensor/rank_thread.h"
#include "sextant/train/load_model.h"

namespace sx {

namespace {

std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<TokenId> ids;
  const auto stats = tokenizer.encode(prompt, ids);
  if (!stats.ok()) throw ConfigError(to_diagnostic(stats.error(), "another --prompt"));
  // The model has only ever seen text behind an end of document.
  if (ids.empty() && tokenizer.eod_id()) ids.push_back(*tokenizer.eod_id());
  return {ids.begin(), ids.end()};
}

}  // namespace

int run_sample(const Invocation& invocation) {
  prepare_process(true);
  LoadedModel loaded = load_model(invocation.inputs.front());
  const std::string prompt = invocation.text("prompt");
  const std::vector<std::int32_t> ids = encode_prompt(loaded.tokenizer, prompt);

  SampleOptions options;
  options.max_new_tokens = invocation.integer("max-tokens", 64);
  options.temperature = invocation.number("temperature", 0.8);
  options.top_p = invocation.number("top-p", 1.0);
  if (loaded.tokenizer.eod_id()) options.stop_token = *loaded.tokenizer.eod_id();
  const std::int64_t count = invocation.integer("num", 1);
  const auto seed = static_cast<std::uint64_t>(invocation.integer("seed", 1));
  for (std::int64_t i = 0; i < count; ++i) {
    options.seed = seed + static_cast<std::uint64_t>(i);
    const Generated generated = generate(*loaded.decoder, ids, options);
    const std::vector<TokenId> new_ids(generated.tokens.begin(), generated.tokens.end());
    const std::string text = loaded.tokenizer.decode_lossy(new_ids);
    if (invocation.json) {
      fmt::print("{}\n",
                 nlohmann::ordered_json{{"prompt", prompt},
                                        {"text", text},
                                        {"tokens", generated.tokens},
                                        {"reason", to_string(generated.reason)},
                                        {"seed", options.seed}}
                     .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    } else {
      fmt::print("{}{}\n", prompt, text);
    }
  }
  return 0;
}

}  // namespace sx
