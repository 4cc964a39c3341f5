#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sextant/base/check.h"
#include "sextant/trace/tensorboard.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto scalars =
      sx::parse_tensorboard(std::string_view(reinterpret_cast<const char*>(data), size));
  if (scalars.ok()) SX_CHECK(scalars->size() <= size, "more scalars than bytes");
  return 0;
}
