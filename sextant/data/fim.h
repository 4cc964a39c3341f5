#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/token/tokenizer.h"

namespace sx {

/// Fill-in-the-middle (Bavarian et al., arXiv 2207.14255), as Megatron-LM's `fim_dataset.py` does
/// it to samples: each part between ends of documents is turned, with probability `rate`, into
/// prefix, suffix, middle (or suffix, prefix, middle with probability `spm_rate`), cut at two
/// places counted in characters, and tokenized again; the sample keeps its length.
///
/// There the draws come from one generator in the order of access. Here they are those of element
/// unit * 2^16 + part of the stream "data.fim:<path id>" with salt = epoch: equal for every number
/// of workers and after every resume. Immutable; threads: safe.
class Fim {
 public:
  struct Options {
    double rate = 0;
    double spm_rate = 0.5;
    std::uint64_t seed = 1;
    std::int32_t prefix_id = -1;
    std::int32_t middle_id = -1;
    std::int32_t suffix_id = -1;
    std::int32_t eod_id = -1;  ///< ends a part; < 0 = the whole sample is one
    std::int32_t pad_id = -1;  ///< behind samples that became shorter
    std::function<std::vector<std::int32_t>(std::string_view)> encode;
    std::function<std::string(std::span<const std::int32_t>)> decode;
  };
  explicit Fim(Options options);

  /// With encode, decode and the ids of a vocabulary's own special tokens: `<|fim_prefix|>`,
  /// `<fim_prefix>`, `<fim-prefix>` or `<PRE>` and their relatives. Errors: kInvalid when it has
  /// none of these sets.
  static Result<std::shared_ptr<const Fim>> make(const Tokenizer& tokenizer, Options options);

  /// Rewrites `sample`: unit `unit` of epoch `epoch` of a member. Tokens beyond its length are cut.
  void apply(const std::string& path_id, std::uint64_t epoch, std::uint64_t unit,
             std::span<std::int32_t> sample) const;

 private:
  void append_part(std::span<const std::int32_t> part, const std::array<std::uint32_t, 4>& draws,
                   std::vector<std::int32_t>& out) const;
  Options options_;
};

}  // namespace sx
