#pragma once

// What the tests of sx_dist share.

#include <ATen/ops/full.h>

#include <chrono>
#include <cstdint>

namespace sx::testing {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// `n` floats of one value.
inline at::Tensor filled(std::int64_t n, double value) { return at::full({n}, value, at::kFloat); }

}  // namespace sx::testing
