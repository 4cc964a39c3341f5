#pragma once

#include <cstdint>

/// Forward declarations of the LibTorch types that headers name without needing their size. A
/// header that holds or returns a tensor by value includes <ATen/core/Tensor.h> instead; operators
/// are included in sources, one by one.
namespace c10 {
enum class ScalarType : std::int8_t;
}  // namespace c10
namespace at {
class Tensor;
using c10::ScalarType;
}  // namespace at
