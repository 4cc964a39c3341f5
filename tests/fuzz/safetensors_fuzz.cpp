// Any bytes as a safetensors file. Faults are fine, crashes are not; entries of an accepted file
// lie inside it, and laid out again they keep their sizes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sextant/safetensors/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace st = sx::safetensors;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto header = st::parse_header(bytes, bytes.size());
  if (!header.ok()) return 0;
  std::uint64_t covered = 0;
  for (const st::Entry& entry : header->entries) {
    if (entry.begin > entry.end || header->data_begin + entry.end > size) std::abort();
    covered += entry.num_bytes();
  }
  if (header->data_begin + covered != size) std::abort();
  const auto layout = st::plan_layout(header->entries, header->metadata);
  if (!layout.ok()) return 0;  // F8 is read, not written
  const auto again = st::parse_header(layout->head, layout->head.size() + covered);
  if (!again.ok() || again->entries.size() != header->entries.size()) std::abort();
  return 0;
}
