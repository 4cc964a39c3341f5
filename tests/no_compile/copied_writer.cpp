// error: use of deleted function|implicitly-deleted|call to deleted
#include "sextant/base/fs.h"

sx::FileWriter take(sx::FileWriter& writer) {
#ifdef BREAK
  return sx::FileWriter(writer);
#else
  return sx::FileWriter(std::move(writer));
#endif
}
