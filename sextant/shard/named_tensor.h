#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace sx {

/// A tensor under its stable dotted name, which is also its checkpoint key. Names do not contain
/// '@'.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

}  // namespace sx
