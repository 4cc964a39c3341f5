#include <fmt/format.h>

#include "apps/sextant-train/commands.h"
#include "sextant/base/diagnostic.h"
#include "sextant/trace/flight_dump.h"
#include "sextant/trace/flight_report.h"

namespace sx {

int run_prof(const Invocation& invocation) {
  const fs::path given = invocation.inputs.front();
  // A run folder serves as well as its flight/.
  const fs::path folder = fs::is_directory(given / "flight") ? given / "flight" : given;
  const auto dumps = read_flight_dumps(folder);
  if (!dumps.ok()) {
    throw IoError(to_diagnostic(dumps.error(), "the folder flight/ of a run that has failed"));
  }
  const FlightReport report = compare_flights(*dumps);
  fmt::print("{}", invocation.json ? to_json(report).dump() + "\n" : to_text(report));
  return 0;
}

}  // namespace sx
