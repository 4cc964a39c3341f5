// Any bytes as a torch.save archive: what is accepted lies inside and has the size of its shape.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sextant/dcp/saved_tensor.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto tensor = sx::read_saved_tensor(bytes);
  if (!tensor.ok()) return 0;
  auto expected = static_cast<std::uint64_t>(sx::safetensors::size_bytes(tensor->dtype));
  for (const std::int64_t extent : tensor->shape) expected *= static_cast<std::uint64_t>(extent);
  if (tensor->bytes.size() != expected) std::abort();
  if (expected > 0 && (tensor->bytes.data() < bytes.data() ||
                       tensor->bytes.data() + expected > bytes.data() + bytes.size())) {
    std::abort();
  }
  return 0;
}
