#pragma once

#include <cstdint>

#include "sextant/base/result.h"
#include "sextant/data/token_source.h"

namespace sx {

/// What simple count models say about held-out tokens, in nats per token: marks for a model's
/// held-out loss.
struct EntropyReport {
  std::uint64_t tokens = 0;  ///< predicted tokens: all of the held-out stream but its first
  std::uint64_t train_tokens = 0;
  double unigram_nats = 0;        ///< entropy of the held-out tokens' own distribution
  double unigram_cross_nats = 0;  ///< cross entropy under training counts plus one
  double bigram_nats =
      0;  ///< cross entropy of the interpolated bigram model trained on the training tokens
};

/// Exact definitions (docs/notes/entropy.md): with counts c of the training stream, N its tokens,
/// t(v) the number of different followers of v,
///   p1(w) = (c(w) + 1) / (N + V)
///   p2(w | v) = (c(v w) + t(v) p1(w)) / (c(v .) + t(v)),   p1(w) where v never occurs
/// (Witten and Bell's interpolation, IEEE Trans. Information Theory 37(4), 1991; in the form of
/// Chen and Goodman, 1998). The streams run over document borders, as evaluation does. Errors:
/// those of the sources; kInvalid for an id outside [0, vocab_size) or fewer than two held-out
/// tokens.
Result<EntropyReport> measure_entropy(const TokenSource& train, const TokenSource& heldout,
                                      std::int64_t vocab_size);

}  // namespace sx
