// AdamW over padded blocks. Two calls of the fused kernel per step: parameters with weight decay,
// and those without.
#include "sextant/optim/adamw.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "sextant/base/check.h"
#include "sextant/tensor/padded.h"

namespace sx {
namespace {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t numel = 1;
  for (const std::int64_t extent : shape) numel *= extent;
  return numel;
}

/// `grad` as a padded row: itself when its length is whole, else a copy behind which zeros stand.
/// What follows a gradient in memory is its owner's business and may be another gradient.
at::Tensor padded_grad(const at::Tensor& grad, const OptimParam& param) {
  SX_CHECK(grad.scalar_type() == param.block.scalar_type(),
           "{}: gradient and parameter differ in dtype", param.name);
  SX_CHECK(grad.is_contiguous(), "{}: gradient is not contiguous", param.name);
  const at::Tensor row = grad.detach().view({grad.numel()});
  if (row.numel() == param.block.numel()) return row;
  SX_CHECK(row.numel() == product(param.shape), "{}: gradient of {} elements for a parameter of {}",
           param.name, row.numel(), product(param.shape));
  at::Tensor padded = at::zeros_like(param.block);
  padded.narrow(0, 0, row.numel()).copy_(row);
  return padded;
}

at::Tensor shaped(const at::Tensor& block, const std::vector<std::int64_t>& shape) {
  return block.narrow(0, 0, product(shape)).view(shape);
}

}  // namespace

AdamW::AdamW(AdamWOptions options, std::vector<OptimParam> params)
    : options_(options), params_(std::move(params)) {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    OptimParam& param = params_[i];
    const std::int64_t numel = product(param.shape);
    SX_CHECK(param.block.dim() == 1 && param.block.is_contiguous() &&
                 param.block.numel() == padded_numel(numel, param.block.scalar_type()),
             "{}: the block is not the padded row of {} elements", param.name, numel);
    SX_CHECK(!param.block.requires_grad(), "{}: the block carries autograd history", param.name);
    SX_CHECK(index_.emplace(param.name, i).second, "{} is given twice", param.name);
    exp_avgs_.push_back(at::zeros_like(param.block));
    exp_avg_sqs_.push_back(at::zeros_like(param.block));
    (param.decay || options_.decay_norm_and_bias ? decayed_ : plain_).push_back(i);
  }
}

void AdamW::step(std::span<const at::Tensor> grads, double lr) {
  SX_CHECK(grads.size() == params_.size(), "{} gradients for {} parameters", grads.size(),
           params_.size());
  ++num_steps_;
  // The kernel reads the number of the step, already counted, from one element per parameter.
  const at::Tensor step = at::full({}, static_cast<double>(num_steps_), c10::kFloat);
  const auto run = [&](const std::vector<std::size_t>& group, double weight_decay) {
    std::vector<at::Tensor> blocks, group_grads, exp_avgs, exp_avg_sqs;
    for (const std::size_t i : group) {
      if (!grads[i].defined()) continue;
      blocks.push_back(params_[i].block);
      group_grads.push_back(padded_grad(grads[i], params_[i]));
      exp_avgs.push_back(exp_avgs_[i]);
      exp_avg_sqs.push_back(exp_avg_sqs_[i]);
    }
    if (blocks.empty()) return;
    const std::vector<at::Tensor> steps(blocks.size(), step);
    at::_fused_adamw_(blocks, group_grads, exp_avgs, exp_avg_sqs, {}, steps, lr, options_.beta1,
                      options_.beta2, weight_decay, options_.eps, /*amsgrad=*/false,
                      /*maximize=*/false);
  };
  run(decayed_, options_.weight_decay);
  run(plain_, 0.0);
}

void AdamW::set_num_steps(std::int64_t steps) {
  SX_CHECK(steps >= 0, "num_steps = {}", steps);
  num_steps_ = steps;
}

std::size_t AdamW::index_of(const std::string& name) const {
  const auto found = index_.find(name);
  SX_CHECK(found != index_.end(), "no optimizer state for {}", name);
  return found->second;
}

at::Tensor AdamW::exp_avg(const std::string& name) const {
  const std::size_t i = index_of(name);
  return shaped(exp_avgs_[i], params_[i].shape);
}

at::Tensor AdamW::exp_avg_sq(const std::string& name) const {
  const std::size_t i = index_of(name);
  return shaped(exp_avg_sqs_[i], params_[i].shape);
}

}  // namespace sx
