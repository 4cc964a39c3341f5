// error: could not convert|no viable conversion|no matching function|invalid conversion|cannot
// convert
#include "sextant/mesh/axis.h"

std::string name_of(int dim) {
#ifdef BREAK
  return sx::to_string(dim);
#else
  return sx::to_string(dim == 0 ? sx::Axis::kTp : sx::Axis::kCp);
#endif
}
