#include "sextant/nn/grad_hooks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "sextant/base/check.h"

namespace sx {
namespace {

class OnAccumulated : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit OnAccumulated(std::function<void()> run) : run_(std::move(run)) {}
  void operator()(const at::Tensor&) override { run_(); }

 private:
  std::function<void()> run_;
};

}  // namespace

void add_gradient(at::Tensor main, const at::Tensor& fresh, bool first) {
  if (fresh.defined()) {
    first ? main.copy_(fresh) : main.add_(fresh);
  } else {
    first ? main.zero_() : main.add_(0.0);
  }
}

GradHooks::GradHooks(std::vector<Parameter*> parameters, Take take)
    : parameters_(std::move(parameters)), take_(std::move(take)) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter* parameter = parameters_[i];
    SX_CHECK(parameter->tensor.defined(), "{} has no memory yet", parameter->fqn);
    SX_CHECK(torch::autograd::impl::post_acc_grad_hooks(parameter->tensor) == nullptr,
             "{} already has an owner of its gradient", parameter->fqn);
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameter->tensor, std::make_unique<OnAccumulated>([this, i, parameter] {
          SX_CHECK(in_backward_, "{}: a backward that its engine did not start", parameter->fqn);
          const at::NoGradGuard no_grad;
          at::Tensor fresh;
          std::swap(fresh, parameter->tensor.mutable_grad());
          take_(i, fresh);
        }));
  }
}

GradHooks::~GradHooks() {
  for (Parameter* parameter : parameters_) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter->tensor, nullptr);
  }
}

void GradHooks::backward(const at::Tensor& loss, double scale) {
  SX_CHECK(!in_backward_, "backward within backward");
  SX_CHECK(loss.numel() == 1, "loss has {} elements, not one", loss.numel());
  SX_CHECK(loss.requires_grad(), "loss carries no graph: was it computed without grad mode?");
  in_backward_ = true;
  try {
    torch::autograd::backward({loss}, {at::full_like(loss.detach(), scale)});
  } catch (...) {
    in_backward_ = false;
    throw;
  }
  in_backward_ = false;
}

void GradHooks::reset() {
  for (Parameter* parameter : parameters_) parameter->tensor.mutable_grad().reset();
}

}  // namespace sx
