// error: no match for .operator<.|invalid operands to binary expression
#include "sextant/base/units.h"

bool below() {
#ifdef BREAK
  return sx::Bytes(1) < sx::Seconds(1);
#else
  return sx::Seconds(1) < sx::Seconds(2);
#endif
}
