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

}  // namespace sx
