#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sextant/base/check.h"
#include "sextant/trace/step_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto trace = sx::parse_step_trace(text);
  if (!trace.ok()) return 0;
  // What was accepted is written and read back the same, times rounded to nanoseconds aside.
  const std::string line = sx::to_json_line(*trace);
  const auto back = sx::parse_step_trace(line);
  SX_CHECK(back.ok() && sx::to_json_line(*back) == line, "a line changes when it is read back");
  return 0;
}
