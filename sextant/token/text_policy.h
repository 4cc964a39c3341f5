#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/token/encode_options.h"
#include "sextant/token/special_tokens.h"

namespace sx {

/// Applies the policy for bytes outside UTF-8: fills `stats` (bytes, invalid_bytes) and gives the
/// text to encode, which is `text` itself or lives in `store`. Errors: kInvalid under kError.
Result<std::string_view> apply_invalid_policy(std::string_view text, InvalidHandling policy,
                                              std::string& store, EncodeStats& stats);

/// The special tokens that the options make the encoder look for.
std::vector<SpecialToken> wanted_specials(const std::vector<SpecialToken>& specials,
                                          const EncodeOptions& options);

/// The error of policy kError.
Error special_in_text(std::string_view special, std::size_t offset);

/// Walks a text in order, after the policies were applied: `on_text(bytes) -> Result<void>` for
/// what lies between special tokens, `on_special(bytes, id)` for them. Errors: of the policies, and
/// the first of on_text, which ends the walk.
template <class OnText, class OnSpecial>
Result<EncodeStats> visit_text(std::string_view text, const SpecialScanner& specials,
                               const EncodeOptions& options, OnText on_text, OnSpecial on_special) {
  EncodeStats stats;
  std::string store;
  SX_TRY(text, apply_invalid_policy(text, options.invalid, store, stats));
  for (std::size_t begin = 0; begin < text.size();) {
    const auto match = specials.find(text, begin);
    const std::size_t end = match ? match->begin : text.size();
    if (end > begin) SX_TRY_VOID(on_text(text.substr(begin, end - begin)));
    if (!match) break;
    const std::string_view special = text.substr(match->begin, match->end - match->begin);
    if (options.special == SpecialHandling::kError) return special_in_text(special, match->begin);
    on_special(special, match->id);
    begin = match->end;
  }
  return stats;
}

/// The end of an `encode` that appended to `out` behind its first `before` ids: counts what it
/// appended, or takes it back when `stats` is an error.
Result<EncodeStats> count_appended(Result<EncodeStats> stats, std::size_t before,
                                   std::vector<TokenId>& out);

}  // namespace sx
