#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/thread_pool.h"
#include "sextant/token/bpe_trainer.h"
#include "sextant/token/tokenizer.h"

namespace {

sx::Tokenizer train_small(sx::SplitFamily split) {
  sx::BpeTrainerOptions options;
  options.vocab_size = 400;
  options.min_frequency = 1;
  options.split = split;
  sx::PieceCounter counter(split);
  sx::ThreadPool pool(1);
  const auto counted = counter.add(
      std::vector<std::string>{
          "the theme, there's 1234 of them  \n\n\xE6\xBC\xA2\xE5\xAD\x97 HELLO aaaaaaaa"},
      pool);
  if (!counted.ok()) std::abort();
  sx::BpeTrainer trainer(options, counter.take_sorted());
  while (trainer.step()) {
  }
  return sx::Tokenizer::from_vocab(trainer.vocab().value());
}

}  // namespace

/// decode(encode(b)) == b for all bytes and split rules, and no special token comes out of text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<sx::Tokenizer> tokenizers = {
      train_small(sx::SplitFamily::kR50k), train_small(sx::SplitFamily::kCl100k),
      train_small(sx::SplitFamily::kO200k), sx::Tokenizer::bytes()};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const sx::Tokenizer& tokenizer : tokenizers) {
    std::vector<sx::TokenId> ids, cached;
    if (!tokenizer.encode(text, ids).ok()) std::abort();
    for (const sx::TokenId id : ids) {
      if (id >= tokenizer.vocab().num_ordinary()) std::abort();
    }
    const auto back = tokenizer.decode(ids);
    if (!back.ok() || *back != text) std::abort();
    sx::Encoder encoder(tokenizer, {}, 8);
    if (!encoder.encode(text, cached).ok() || cached != ids) std::abort();
  }
  return 0;
}
