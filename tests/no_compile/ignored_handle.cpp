// error: ignoring return.*nodiscard|ignoring return value.*'nodiscard'
#include "sextant/dist/handle.h"

sx::Handle start_gather();

void gather() {
#ifdef BREAK
  start_gather();
#else
  start_gather().wait();
#endif
}
