// One route for gradients: fresh ones per microbatch, copied or added into a flat buffer by the
// hook that LibTorch calls when a parameter's gradient is complete, then released.
#include "sextant/nn/main_grads.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "sextant/base/check.h"
#include "sextant/tensor/padded.h"

namespace sx {

struct MainGrads::State {
  std::function<void(std::size_t)> ready;
  std::vector<bool> taken;  ///< slots that hold this microbatch's contribution
  std::int64_t num_microbatches = 0;
  bool in_backward = false;
  bool broken = false;  ///< a backward ended with an exception
};

namespace {

class OnAccumulated : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit OnAccumulated(std::function<void()> run) : run_(std::move(run)) {}
  void operator()(const at::Tensor&) override { run_(); }

 private:
  std::function<void()> run_;
};

}  // namespace

MainGrads::MainGrads(Module& root) : state_(std::make_shared<State>()) {
  std::int64_t total = 0;
  const std::vector<Parameter*> parameters = root.parameters();
  SX_CHECK(!parameters.empty(), "a tree without parameters has no gradients");
  for (Parameter* parameter : parameters) {
    SX_CHECK(parameter->tensor.defined(), "{} has no memory yet", parameter->fqn);
    SX_CHECK(parameter->tensor.scalar_type() == parameters[0]->tensor.scalar_type(),
             "{} differs in dtype from {}", parameter->fqn, parameters[0]->fqn);
    const std::int64_t padded = padded_numel(parameter->numel(), parameter->tensor.scalar_type());
    slots_.push_back({parameter, total, parameter->numel(), padded});
    total += padded;
  }
  flat_ = at::zeros({total}, parameters[0]->tensor.options().requires_grad(false));
  state_->taken.assign(slots_.size(), false);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    blocks_.push_back(flat_.narrow(0, slots_[i].offset, slots_[i].padded));
    SX_CHECK(torch::autograd::impl::post_acc_grad_hooks(slots_[i].parameter->tensor) == nullptr,
             "{} already has an owner of its gradient", slots_[i].parameter->fqn);
    torch::autograd::impl::set_post_acc_grad_hooks(
        slots_[i].parameter->tensor, std::make_unique<OnAccumulated>([this, i] { take(i); }));
  }
}

MainGrads::~MainGrads() {
  for (const GradSlot& slot : slots_) {
    torch::autograd::impl::set_post_acc_grad_hooks(slot.parameter->tensor, nullptr);
  }
}

void MainGrads::begin_step() {
  for (const GradSlot& slot : slots_) slot.parameter->tensor.mutable_grad().reset();
  state_->num_microbatches = 0;
  state_->broken = false;
}

/// Moves one parameter's fresh gradient into its slot; an undefined one counts as zero.
void MainGrads::take(std::size_t slot) {
  SX_CHECK(state_->in_backward, "{}: backward outside MainGrads::backward",
           slots_[slot].parameter->fqn);
  SX_CHECK(!state_->taken[slot], "{}: two gradients in one backward", slots_[slot].parameter->fqn);
  const at::NoGradGuard no_grad;
  at::Tensor& fresh = slots_[slot].parameter->tensor.mutable_grad();
  const at::Tensor main = grad(slot);
  const bool first = state_->num_microbatches == 0;
  if (fresh.defined()) {
    first ? main.copy_(fresh) : main.add_(fresh);
  } else {
    // Adding zero is not nothing: it turns -0 into +0, as the sum over ranks does.
    first ? main.zero_() : main.add_(0.0);
  }
  fresh.reset();
  state_->taken[slot] = true;
  if (state_->ready) state_->ready(slot);
}

void MainGrads::backward(const at::Tensor& loss, double scale) {
  SX_CHECK(!state_->broken, "after a failed backward only begin_step is allowed");
  SX_CHECK(!state_->in_backward, "backward within backward");
  SX_CHECK(loss.numel() == 1, "loss has {} elements, not one", loss.numel());
  SX_CHECK(loss.requires_grad(), "loss carries no graph: was it computed without grad mode?");
  state_->taken.assign(slots_.size(), false);
  state_->in_backward = true;
  state_->broken = true;  // until the end is reached
  try {
    torch::autograd::backward({loss}, {at::full_like(loss.detach(), scale)});
    for (std::size_t i = slots_.size(); i-- > 0;) {
      if (!state_->taken[i]) take(i);
    }
  } catch (...) {
    state_->in_backward = false;
    throw;
  }
  state_->in_backward = false;
  state_->broken = false;
  ++state_->num_microbatches;
}

void MainGrads::on_grad_ready(std::function<void(std::size_t slot)> ready) {
  state_->ready = std::move(ready);
}

std::int64_t MainGrads::num_microbatches() const { return state_->num_microbatches; }

const at::Tensor& MainGrads::block(std::size_t slot) const { return blocks_.at(slot); }

at::Tensor MainGrads::grad(std::size_t slot) const {
  return blocks_.at(slot).narrow(0, 0, slots_[slot].numel).view(slots_[slot].parameter->shape);
}

at::Tensor MainGrads::grad(const std::string& fqn) const {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].parameter->fqn == fqn) return grad(i);
  }
  SX_CHECK(false, "no gradient for \"{}\"", fqn);
}

}  // namespace sx
