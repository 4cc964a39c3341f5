#include "sextant/crawl/attributes.h"

#include <algorithm>

namespace sx {

void Attributes::set(std::string_view name, double value) {
  for (auto& [known, old] : values_) {
    if (known == name) {
      old = value;
      return;
    }
  }
  values_.emplace_back(name, value);
}

void Attributes::add(std::string_view name, double value) { set(name, get(name) + value); }

double Attributes::get(std::string_view name) const {
  for (const auto& [known, value] : values_) {
    if (known == name) return value;
  }
  return 0;
}

}  // namespace sx
