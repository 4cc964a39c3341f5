// Any bytes as a topology file of eight ranks: an error, or a topology whose ranks have places.
#include <cstddef>
#include <cstdint>
#include <string>

#include "sextant/recipe/topology_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const sx::Result<sx::Topology> read = sx::read_topology(text, "topology", 8);
  if (!read.ok()) return 0;
  const sx::DeviceMesh mesh({.dp_shard = 2, .tp = 4});
  static_cast<void>(read->warnings(mesh));
  static_cast<void>(read->one_rail(mesh, sx::Axis::kTp));
  return 0;
}
