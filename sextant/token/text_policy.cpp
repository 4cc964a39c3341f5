#include "sextant/token/text_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sextant/text/utf8.h"
#include "sextant/token/char_scan.h"

namespace sx {
namespace {

constexpr std::array kSpecialHandlings{SpecialHandling::kText, SpecialHandling::kAllow,
                                       SpecialHandling::kError};
constexpr std::array kInvalidHandlings{InvalidHandling::kBytes, InvalidHandling::kReplace,
                                       InvalidHandling::kError};
constexpr std::string_view kReplacementChar = "\xEF\xBF\xBD";

}  // namespace

const char* to_string(SpecialHandling handling) {
  switch (handling) {
    case SpecialHandling::kText: return "text";
    case SpecialHandling::kAllow: return "allow";
    case SpecialHandling::kError: return "error";
  }
  return "text";
}

const char* to_string(InvalidHandling handling) {
  switch (handling) {
    case InvalidHandling::kBytes: return "bytes";
    case InvalidHandling::kReplace: return "replace";
    case InvalidHandling::kError: return "error";
  }
  return "bytes";
}

std::optional<SpecialHandling> parse_special_handling(std::string_view name) {
  for (const SpecialHandling handling : kSpecialHandlings) {
    if (name == to_string(handling)) return handling;
  }
  return std::nullopt;
}

std::optional<InvalidHandling> parse_invalid_handling(std::string_view name) {
  for (const InvalidHandling handling : kInvalidHandlings) {
    if (name == to_string(handling)) return handling;
  }
  return std::nullopt;
}

Result<std::string_view> apply_invalid_policy(std::string_view text, InvalidHandling policy,
                                              std::string& store, EncodeStats& stats) {
  stats.bytes = text.size();
  stats.invalid_bytes = 0;
  if (is_valid_utf8(text)) return text;
  std::size_t first = text.size();
  store.clear();
  for (std::size_t pos = 0; pos < text.size();) {
    const ScannedChar c = scan_char(text, pos);
    std::size_t size = c.size;
    if (c.valid) {
      if (policy == InvalidHandling::kReplace) store.append(text.substr(pos, size));
    } else {
      size = ill_formed_size(text, pos);
      first = std::min(first, pos);
      stats.invalid_bytes += size;
      if (policy == InvalidHandling::kReplace) store += kReplacementChar;
    }
    pos += size;
  }
  if (policy == InvalidHandling::kError)
    return Error{ErrorKind::kInvalid, "bytes that are not UTF-8", fmt::format("byte {}", first)};
  return policy == InvalidHandling::kReplace ? std::string_view(store) : text;
}

std::vector<SpecialToken> wanted_specials(const std::vector<SpecialToken>& specials,
                                          const EncodeOptions& options) {
  if (options.special == SpecialHandling::kText) return {};
  if (options.special == SpecialHandling::kError || options.allowed.empty()) return specials;
  std::vector<SpecialToken> wanted;
  for (const SpecialToken& special : specials) {
    if (std::find(options.allowed.begin(), options.allowed.end(), special.text) !=
        options.allowed.end()) {
      wanted.push_back(special);
    }
  }
  return wanted;
}

Error special_in_text(std::string_view special, std::size_t offset) {
  return Error{ErrorKind::kInvalid, fmt::format("the text holds the special token {}", special),
               fmt::format("byte {}", offset)};
}

Result<EncodeStats> count_appended(Result<EncodeStats> stats, std::size_t before,
                                   std::vector<TokenId>& out) {
  if (!stats)
    out.resize(before);
  else
    stats->tokens = out.size() - before;
  return stats;
}

}  // namespace sx
