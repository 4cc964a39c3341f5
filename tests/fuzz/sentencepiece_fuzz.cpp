#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "sextant/token/sentencepiece.h"
#include "sextant/token/tokenizer.h"

/// A SentencePiece model is an error or encodes a text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto model =
      sx::parse_sentencepiece(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!model.ok()) return 0;
  const auto tokenizer = sx::Tokenizer::from_model(std::move(*model));
  std::vector<sx::TokenId> ids;
  if (tokenizer.encode("a b  c 1 \xE6\xBC\xA2", ids).ok() && !tokenizer.decode(ids).ok())
    std::abort();
  return 0;
}
