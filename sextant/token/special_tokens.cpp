#include "sextant/token/special_tokens.h"

#include <algorithm>

namespace sx {

SpecialScanner::SpecialScanner(std::vector<SpecialToken> specials)
    : specials_(std::move(specials)) {
  std::stable_sort(specials_.begin(), specials_.end(),
                   [](const auto& a, const auto& b) { return a.text.size() > b.text.size(); });
  for (const SpecialToken& special : specials_)
    first_[static_cast<unsigned char>(special.text[0])] = true;
}

std::optional<SpecialScanner::Match> SpecialScanner::find(std::string_view text,
                                                          std::size_t from) const {
  if (specials_.empty()) return std::nullopt;
  for (std::size_t pos = from; pos < text.size(); ++pos) {
    if (!first_[static_cast<unsigned char>(text[pos])]) continue;
    for (const SpecialToken& special : specials_) {
      if (text.compare(pos, special.text.size(), special.text) == 0) {
        return Match{pos, pos + special.text.size(), special.id};
      }
    }
  }
  return std::nullopt;
}

}  // namespace sx
