#include "sextant/tensor/dtype.h"

#include <fmt/format.h>

#include "sextant/base/check.h"

namespace sx {
namespace {

struct Row {
  const char* name;
  c10::ScalarType dtype;
};
constexpr Row kRows[] = {
    {"fp64", c10::ScalarType::Double},   {"fp32", c10::ScalarType::Float},
    {"bf16", c10::ScalarType::BFloat16}, {"fp16", c10::ScalarType::Half},
    {"int64", c10::ScalarType::Long},    {"int32", c10::ScalarType::Int},
    {"uint8", c10::ScalarType::Byte},    {"bool", c10::ScalarType::Bool},
};

}  // namespace

std::string dtype_name(c10::ScalarType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row.name;
  }
  SX_CHECK(false, "dtype {} has no name here", c10::toString(dtype));
}

Result<c10::ScalarType> parse_dtype(std::string_view name) {
  std::string known;
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
    known += std::string(" ") + row.name;
  }
  return Error{ErrorKind::kInvalid, fmt::format("dtype \"{}\" is not known; known:{}", name, known),
               ""};
}

}  // namespace sx
