// Any bytes as a pickle: no class outside the list is ever made, every reference is inside, and
// memory stays in proportion to the bytes.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sextant/dcp/pickle_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static constexpr auto kAllowed = std::to_array<std::string_view>(
      {"torch.Size", "collections.OrderedDict", "a.B"});
  const auto tree =
      sx::read_pickle({reinterpret_cast<const char*>(data), size}, kAllowed);
  if (!tree.ok()) return 0;
  if (tree->values.size() > size || tree->root >= tree->values.size()) std::abort();
  for (const sx::PickleValue& value : tree->values) {
    const bool named = value.kind == sx::PickleValue::Kind::kGlobal ||
                       value.kind == sx::PickleValue::Kind::kObject;
    if (named && std::find(kAllowed.begin(), kAllowed.end(), value.text) == kAllowed.end()) {
      std::abort();
    }
    for (const auto ref : value.items) {
      if (ref >= tree->values.size()) std::abort();
    }
    for (const auto& [key, member] : value.pairs) {
      if (key >= tree->values.size() || member >= tree->values.size()) std::abort();
    }
  }
  return 0;
}
