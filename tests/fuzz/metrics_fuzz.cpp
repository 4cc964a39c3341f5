#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sextant/base/check.h"
#include "sextant/trace/metrics.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = sx::parse_metrics(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!file.ok()) return 0;
  for (const sx::MetricsRow& row : file->rows)
    SX_CHECK(!row.to_line().empty(), "a row without text");
  return 0;
}
