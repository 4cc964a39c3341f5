// error: no match for .operator\+.|invalid operands to binary expression
#include "sextant/base/units.h"

auto add() {
#ifdef BREAK
  return sx::Bytes(1) + sx::Seconds(1);
#else
  return sx::Bytes(1) + sx::Bytes(1);
#endif
}
