// error: ignoring return.*nodiscard|ignoring return value.*'nodiscard'
#include "sextant/base/fs.h"

void save() {
#ifdef BREAK
  sx::write_file_atomic("a", "b");
#else
  static_cast<void>(sx::write_file_atomic("a", "b"));
#endif
}
