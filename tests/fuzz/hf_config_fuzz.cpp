// Any bytes as config.json. What is accepted is a shape without faults, and is written and read back
// as the same shape.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sextant/shape/hf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config = sx::parse_hf_config({reinterpret_cast<const char*>(data), size});
  if (!config.ok()) return 0;
  if (!config->shape.validate().empty()) std::abort();
  const auto written = sx::format_hf_config(config->shape, "float32", config->fields);
  if (!written.ok()) std::abort();
  const auto again = sx::parse_hf_config(
      written->dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  if (!again.ok()) std::abort();
  sx::ModelShape shape = again->shape;
  shape.name = config->shape.name;
  shape.arch = config->shape.arch;
  if (!(shape == config->shape)) std::abort();
  return 0;
}
