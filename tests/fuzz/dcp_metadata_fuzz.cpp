// Any bytes as .metadata: pieces of what is accepted lie inside their tensors and hold all elements.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sextant/dcp/dcp_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto index = sx::parse_dcp_metadata({reinterpret_cast<const char*>(data), size});
  if (!index.ok()) return 0;
  for (const auto& [name, tensor] : index->tensors) {
    std::int64_t held = 0;
    for (const sx::DcpChunk& chunk : tensor.chunks) {
      if (chunk.file.empty() || chunk.size.size() != tensor.shape.size()) std::abort();
      std::int64_t elements = 1;
      for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
        if (chunk.offset[d] < 0 || chunk.offset[d] + chunk.size[d] > tensor.shape[d]) std::abort();
        elements *= chunk.size[d];
      }
      held += elements;
    }
    if (held != tensor.num_elements()) std::abort();
  }
  return 0;
}
