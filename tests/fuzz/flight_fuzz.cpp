#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sextant/base/check.h"
#include "sextant/trace/flight_dump.h"
#include "sextant/trace/flight_report.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto dump = sx::parse_flight_dump(text);
  if (!dump.ok()) return 0;
  const std::string json = sx::to_json(*dump);
  const auto back = sx::parse_flight_dump(json);
  SX_CHECK(back.ok() && sx::to_json(*back) == json, "a flight record changes when read back");
  auto other = *dump;
  other.rank += 1;
  if (!other.entries.empty()) other.entries.pop_back();
  sx::to_text(sx::compare_flights({*dump, other}));
  return 0;
}
