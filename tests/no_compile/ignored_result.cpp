// error: ignoring return.*nodiscard|ignoring return value.*'nodiscard'
#include "sextant/base/units.h"

void read_size() {
#ifdef BREAK
  sx::parse_bytes("4MiB");
#else
  if (!sx::parse_bytes("4MiB").ok()) return;
#endif
}
