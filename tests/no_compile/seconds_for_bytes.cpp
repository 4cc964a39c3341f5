// error: could not convert|no viable conversion|no matching function
#include "sextant/base/units.h"

std::string text_of_seconds() {
#ifdef BREAK
  return sx::format_bytes(sx::Seconds(1));
#else
  return sx::format_bytes(sx::Bytes(1));
#endif
}
