#include "sextant/token/unicode_classes.h"

namespace sx {
namespace {
#include "sextant/token/gen/unicode_classes.inc"
}  // namespace

std::uint8_t unicode_class_of(std::uint32_t code_point) {
  return kBlocks[(static_cast<std::uint32_t>(kIndex[code_point >> 7]) << 7) | (code_point & 127)];
}

const char* unicode_version() { return kVersion; }

}  // namespace sx
