// The gradients of a whole model in one flat buffer; when and how a contribution comes is
// GradHooks' business.
#include "sextant/nn/main_grads.h"

#include <ATen/ops/zeros.h>

#include "sextant/base/check.h"
#include "sextant/nn/grad_hooks.h"
#include "sextant/tensor/padded.h"

namespace sx {

struct MainGrads::State {
  std::unique_ptr<GradHooks> hooks;
  std::function<void(std::size_t)> ready;
  std::vector<bool> taken;  ///< slots that hold this microbatch's contribution
  std::int64_t num_microbatches = 0;
  bool broken = false;  ///< a backward ended with an exception
};

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
  for (const GradSlot& slot : slots_) blocks_.push_back(flat_.narrow(0, slot.offset, slot.padded));
  state_->hooks = std::make_unique<GradHooks>(
      parameters, [this](std::size_t i, const at::Tensor& fresh) { take(i, fresh); });
}

MainGrads::~MainGrads() = default;

void MainGrads::begin_step() {
  state_->hooks->reset();
  state_->num_microbatches = 0;
  state_->broken = false;
}

void MainGrads::take(std::size_t slot, const at::Tensor& fresh) {
  add_gradient(grad(slot), fresh, state_->num_microbatches == 0 && !state_->taken[slot]);
  const bool again = state_->taken[slot];
  state_->taken[slot] = true;
  if (!again && state_->ready) state_->ready(slot);
}

void MainGrads::backward(const at::Tensor& loss, double scale) {
  SX_CHECK(!state_->broken, "after a failed backward only begin_step is allowed");
  state_->taken.assign(slots_.size(), false);
  state_->broken = true;  // until the end is reached
  state_->hooks->backward(loss, scale);
  for (std::size_t i = slots_.size(); i-- > 0;) {
    if (!state_->taken[i]) take(i, {});
  }
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
