// Any bytes as a checkpoint manifest. The harness adds the closing hash, which no fuzzer would
// find. Faults are fine, crashes are not; an accepted manifest is written and read again unchanged.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "sextant/base/hash.h"
#include "sextant/ckpt/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  text += ",\"xxh3\":\"" + sx::hex64(sx::xxh3_64(text)) + "\"}\n";
  const auto manifest = sx::parse_manifest(text);
  if (!manifest.ok()) return 0;
  const std::string written = sx::format_manifest(*manifest);
  const auto again = sx::parse_manifest(written);
  if (!again.ok() || sx::format_manifest(*again) != written) std::abort();
  return 0;
}
