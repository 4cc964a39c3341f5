#include "sextant/token/unicode_classes.h"

namespace sx {
namespace detail {
#include "sextant/token/gen/unicode_classes.inc"
}  // namespace detail

const char* unicode_version() { return detail::kUnicodeVersion; }

}  // namespace sx
