// The sum of squares is cut into blocks whose place depends on the parameters alone, so that it
// does not matter which rank adds up which block: the sums of all blocks are gathered and added in
// the same order everywhere.
#include "sextant/shard/grad_norm.h"

#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sextant/base/check.h"

namespace sx {
namespace {

constexpr std::int64_t kBlock = 4096;

/// Eight running sums over i mod 8, then added from the first to the last: a fixed order that
/// vector units can follow.
template <class T>
double block_sum(const T* x, std::int64_t n) {
  double lanes[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int lane = 0; lane < 8; ++lane) {
      const auto value = static_cast<double>(x[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (; i < n; ++i) {
    const auto value = static_cast<double>(x[i]);
    lanes[i % 8] += value * value;
  }
  double sum = lanes[0];
  for (int lane = 1; lane < 8; ++lane) sum += lanes[lane];
  return sum;
}

double block_sum_of(const NamedTensor& grad, std::int64_t block) {
  const at::Tensor& t = grad.tensor;
  const std::int64_t begin = block * kBlock;
  const std::int64_t n = std::min(kBlock, t.numel() - begin);
  switch (t.scalar_type()) {
    case at::kDouble: return block_sum(t.const_data_ptr<double>() + begin, n);
    case at::kFloat: return block_sum(t.const_data_ptr<float>() + begin, n);
    case at::kBFloat16: return block_sum(t.const_data_ptr<c10::BFloat16>() + begin, n);
    case at::kHalf: return block_sum(t.const_data_ptr<c10::Half>() + begin, n);
    default: SX_CHECK(false, "gradient of {} is {}", grad.name, toString(t.scalar_type()));
  }
}

std::int64_t num_blocks(const NamedTensor& grad) {
  return (grad.tensor.numel() + kBlock - 1) / kBlock;
}

}  // namespace

GradNorm grad_norm(std::span<const NamedTensor> grads, Communicator& replicas) {
  std::int64_t total = 0;
  for (const NamedTensor& grad : grads) {
    SX_CHECK(grad.tensor.is_contiguous(), "gradient of {} is not contiguous", grad.name);
    total += num_blocks(grad);
  }
  // Coord c sums the blocks [c * total / W, (c + 1) * total / W) of all parameters in a row.
  const std::int64_t degree = replicas.degree();
  std::vector<std::int64_t> counts;
  for (std::int64_t c = 0; c < degree; ++c)
    counts.push_back((c + 1) * total / degree - c * total / degree);
  const std::int64_t own_begin = replicas.coord() * total / degree;
  const std::int64_t own_count = counts[static_cast<std::size_t>(replicas.coord())];

  const at::Tensor sums = at::empty({total}, at::kDouble);
  auto* sum = sums.mutable_data_ptr<double>();
  std::int64_t first = 0;  // of the current parameter
  for (const NamedTensor& grad : grads) {
    const std::int64_t n = num_blocks(grad);
    const std::int64_t begin = std::max(own_begin, first);
    const std::int64_t end = std::min(own_begin + own_count, first + n);
    for (std::int64_t block = begin; block < end; ++block)
      sum[block] = block_sum_of(grad, block - first);
    first += n;
  }
  replicas
      .start_all_gather(sums, sums.narrow(0, own_begin, own_count), counts, {.unit = "grad norm"})
      .wait();

  GradNorm result;
  first = 0;
  for (const NamedTensor& grad : grads) {
    double of_parameter = 0.0;
    for (std::int64_t block = 0; block < num_blocks(grad); ++block)
      of_parameter += sum[first + block];
    first += num_blocks(grad);
    result.sum_of_squares += of_parameter;
  }
  result.norm = std::sqrt(result.sum_of_squares);
  result.finite = std::isfinite(result.sum_of_squares);
  return result;
}

double clip_coefficient(double norm, double max_norm) {
  if (max_norm <= 0.0 || !std::isfinite(norm)) return 1.0;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

double clip_grads(std::span<const NamedTensor> grads, double norm, double max_norm) {
  const double coefficient = clip_coefficient(norm, max_norm);
  if (coefficient < 1.0) {
    for (const NamedTensor& grad : grads) {
      at::Tensor tensor = grad.tensor;
      tensor.mul_(coefficient);
    }
  }
  return coefficient;
}

}  // namespace sx
