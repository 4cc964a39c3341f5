#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sx {

enum class InitKind { kNormal, kOnes, kZeros };

/// How a parameter starts. `valid_rows` >= 0: rows of dimension 0 from there on are padding and are
/// zero.
struct InitSpec {
  InitKind kind = InitKind::kZeros;
  double mean = 0.0;
  double std = 0.0;
  std::int64_t valid_rows = -1;
};

/// Writes elements [begin, begin + out.numel()) of the global row-major parameter `fqn` into `out`.
///
/// Element i is a pure function of (seed, fqn, i): mean + std * z in double, one rounding to out's
/// dtype, z the i-th normal of stream "init:" + fqn. So initial weights do not depend on ranks,
/// layout, threads or order of calls, and any slice can be made alone. Shapes:  out contiguous,
/// fp64, fp32, bf16 or fp16; row_elements = product of the global shape without dimension 0.
/// Threads: pure; large slices are made by several threads with the same result.
void fill_init(at::Tensor& out, const InitSpec& spec, std::uint64_t seed, std::string_view fqn,
               std::int64_t row_elements, std::int64_t begin = 0, int num_threads = 1);

}  // namespace sx
