#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "sextant/token/hf_json.h"
#include "sextant/token/hf_model.h"
#include "sextant/token/tokenizer.h"

/// A tokenizer.json is an error or encodes a text, alike with and without a cache; what it gives
/// decodes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  auto file = sx::parse_hf_json(json, "fuzz");
  if (!file.ok()) return 0;
  const auto ranks = sx::rank_vocab_of(*file);
  (void)ranks.ok();
  const auto tokenizer = sx::Tokenizer::from_model(sx::make_hf_model(std::move(*file)));
  sx::EncodeOptions options;
  options.special = sx::SpecialHandling::kAllow;
  const std::string_view text = "a b  c\n1\xff \xE6\xBC\xA2 <s>it's";
  std::vector<sx::TokenId> ids, cached;
  sx::Encoder encoder(tokenizer, options, 8);
  const bool plain = tokenizer.encode(text, ids, options).ok();
  if (encoder.encode(text, cached).ok() != plain || cached != ids) std::abort();
  if (plain && !tokenizer.decode(ids).ok()) std::abort();
  return 0;
}
