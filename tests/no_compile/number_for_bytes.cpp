// error: could not convert|no viable conversion|no matching function
#include "sextant/base/units.h"

std::string text_of_number() {
#ifdef BREAK
  return sx::format_bytes(4096);
#else
  return sx::format_bytes(sx::Bytes(4096));
#endif
}
