#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sextant/base/result.h"
#include "sextant/text/scan_pii.h"

namespace sx {

/// Personal data that is looked for, and its token in masked text.
#define SX_PII_KINDS(X)                     \
  X(kEmail, "email", "|||EMAIL_ADDRESS|||") \
  X(kPhone, "phone", "|||PHONE_NUMBER|||")  \
  X(kIp, "ip", "|||IP_ADDRESS|||")          \
  X(kIban, "iban", "|||IBAN|||")            \
  X(kCard, "card", "|||CARD_NUMBER|||")     \
  X(kKey, "key", "|||SECRET_KEY|||")

enum class PiiKind : std::uint8_t {
#define SX_PII_ENUMERATOR(name, text, token) name,
  SX_PII_KINDS(SX_PII_ENUMERATOR)
#undef SX_PII_ENUMERATOR
      kCount
};
inline constexpr std::size_t kNumPiiKinds = static_cast<std::size_t>(PiiKind::kCount);
const char* to_string(PiiKind kind);
std::string_view pii_token(PiiKind kind);

/// What is done with what is found.
enum class PiiMode {
  kOff,
  kMask,       ///< the kind's token
  kPseudonym,  ///< a made-up one of reserved names and numbers, the same for the same original
  kTag,        ///< counted, the text stays
  kDrop        ///< the page falls
};

/// Whose idea of an address is taken.
enum class PiiPreset { kSextant, kCs336, kDatatrove };

struct PiiOptions {
  PiiMode mode = PiiMode::kMask;
  PiiPreset preset = PiiPreset::kSextant;
  std::vector<PiiKind> kinds;  ///< empty = all the preset knows
  std::uint64_t key = 0;       ///< of the pseudonyms
};

struct PiiSpan {
  std::size_t begin = 0, end = 0;  ///< bytes
  PiiKind kind = PiiKind::kEmail;
};

using PiiCounts = std::array<std::uint64_t, kNumPiiKinds>;

/// Spans in order, without overlap; of two that overlap the one that begins first, then the longer.
std::vector<PiiSpan> find_pii(std::string_view text, const PiiOptions& options);

/// Puts the replacement of the mode in place of each span and counts them. Preset kDatatrove
/// replaces e-mail addresses first, then looks for IP addresses in the result, and takes its fixed
/// replacements in turn, from the first for every text.
std::string replace_pii(std::string_view text, const PiiOptions& options, PiiCounts& counts);

/// The stand-in for `original` under a key: user-xxxxxxxx@example.org, 555-01xx numbers,
/// 198.18.0.0/15, 2001:db8::/32.
std::string pii_pseudonym(std::string_view original, PiiKind kind, std::uint64_t key);

}  // namespace sx
