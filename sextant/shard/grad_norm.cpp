// The norm is one exact sum: which rank squares which element does not matter.
#include "sextant/shard/grad_norm.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "sextant/base/check.h"

namespace sx {

StepSums reduce_step_sums(const ExactSum& own, Communicator& world,
                          std::span<const std::int64_t> sums) {
  const std::size_t head = ExactSum::kLimbs + 1;
  const at::Tensor message = at::zeros({static_cast<std::int64_t>(head + sums.size())}, at::kLong);
  auto* m = message.mutable_data_ptr<std::int64_t>();
  const auto limbs = own.limbs();
  std::copy(limbs.begin(), limbs.end(), m);
  m[ExactSum::kLimbs] = own.finite() ? 0 : 1;
  std::copy(sums.begin(), sums.end(), m + head);
  world.start_all_reduce(message, ReduceOp::kSum, {.unit = "step sums"}).wait();

  std::array<std::int64_t, ExactSum::kLimbs> all{};
  std::copy_n(m, ExactSum::kLimbs, all.begin());
  StepSums result;
  result.norm.finite = m[ExactSum::kLimbs] == 0;
  result.norm.sum_of_squares = ExactSum::from_limbs(all, result.norm.finite).value();
  result.norm.norm = std::sqrt(result.norm.sum_of_squares);
  result.norm.finite = result.norm.finite && std::isfinite(result.norm.sum_of_squares);
  result.sums.assign(m + head, m + head + sums.size());
  return result;
}

GradNorm grad_norm(std::span<const NamedTensor> grads, Communicator& replicas) {
  std::int64_t total = 0;
  for (const NamedTensor& grad : grads) {
    SX_CHECK(grad.tensor.is_contiguous(), "gradient of {} is not contiguous", grad.name);
    total += grad.tensor.numel();
  }
  // Coord c squares the elements [c * total / W, (c + 1) * total / W) of all parameters in a row.
  const std::int64_t begin = replicas.coord() * total / replicas.degree();
  const std::int64_t end = (replicas.coord() + 1) * total / replicas.degree();
  ExactSum sum;
  std::int64_t first = 0;
  for (const NamedTensor& grad : grads) {
    const std::int64_t n = grad.tensor.numel();
    const std::int64_t from = std::clamp<std::int64_t>(begin - first, 0, n);
    const std::int64_t to = std::clamp<std::int64_t>(end - first, 0, n);
    if (from < to) sum.add_squares(grad.tensor.detach().view({-1}).narrow(0, from, to - from));
    first += n;
  }
  return reduce_step_sums(sum, replicas).norm;
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
