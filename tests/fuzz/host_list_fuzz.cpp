#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sextant/base/host_list.h"

/// A host list expands to hosts that are not empty, or is an error; nothing else happens.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto hosts = sx::expand_host_list({reinterpret_cast<const char*>(data), size});
  if (!hosts.ok()) return 0;
  for (const auto& host : *hosts) {
    if (host.empty()) std::abort();
  }
  return 0;
}
