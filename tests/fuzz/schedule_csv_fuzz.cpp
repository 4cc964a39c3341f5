// Any bytes as a table of a pipeline schedule: an error, or a schedule that can be checked, timed
// and written again.
#include <cstddef>
#include <cstdint>
#include <string>

#include "sextant/schedule/csv.h"
#include "sextant/schedule/simulate.h"
#include "sextant/schedule/validate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const sx::Result<sx::Schedule> read =
      sx::from_csv({reinterpret_cast<const char*>(data), size});
  if (!read.ok() || read->num_stages() * std::int64_t{read->microbatches} > 1 << 16) return 0;
  static_cast<void>(sx::validate(*read, true));
  static_cast<void>(sx::simulate(*read, sx::unit_times(*read)));
  const sx::Result<sx::Schedule> again = sx::from_csv(sx::to_csv(*read));
  if (!again.ok() || again->ops != read->ops) __builtin_trap();
  return 0;
}
