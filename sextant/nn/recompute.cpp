#include "sextant/nn/recompute.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include "sextant/base/check.h"

namespace sx {
namespace {

struct Kept : torch::CustomClassHolder {
  explicit Kept(Segment f) : forward(std::move(f)) {}
  Segment forward;
};

/// Backward passes within backward passes of the calling thread, at this moment.
int& depth_of_this_thread() {
  static thread_local int depth = 0;
  return depth;
}

struct DepthGuard {
  DepthGuard() {
    SX_CHECK(depth_of_this_thread() < kMaxRecomputeDepth,
             "recompute within recompute, more than {} levels", kMaxRecomputeDepth);
    ++depth_of_this_thread();
  }
  ~DepthGuard() { --depth_of_this_thread(); }
};

struct Recompute : torch::autograd::Function<Recompute> {
  /// tensors: the inputs and, last, one that requires grad if none of them does.
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, at::TensorList tensors,
                            const c10::intrusive_ptr<torch::CustomClassHolder>& kept,
                            std::int64_t num_inputs) {
    ctx->set_materialize_grads(false);
    ctx->save_for_backward(tensors.vec());
    ctx->saved_data["forward"] = c10::IValue::make_capsule(kept);
    ctx->saved_data["num_inputs"] = num_inputs;
    const at::NoGradGuard no_grad;
    return static_cast<Kept&>(*kept).forward(
        tensors.slice(0, static_cast<std::size_t>(num_inputs)));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    torch::autograd::variable_list out(saved.size() + 2);
    if (!grads[0].defined()) return out;
    const DepthGuard deeper;
    const auto num_inputs = static_cast<std::size_t>(ctx->saved_data["num_inputs"].toInt());
    const auto kept = ctx->saved_data["forward"].toCapsule();
    std::vector<at::Tensor> inputs;
    for (std::size_t i = 0; i < num_inputs; ++i) {
      inputs.push_back(saved[i].detach());
      if (saved[i].requires_grad()) inputs.back().set_requires_grad(true);
    }
    {
      const at::AutoGradMode grad_mode(true);
      const at::Tensor y = static_cast<Kept&>(*kept).forward(inputs);
      torch::autograd::backward({y}, {grads[0]});
    }
    for (std::size_t i = 0; i < num_inputs; ++i) out[i] = inputs[i].grad();
    return out;
  }
};

}  // namespace

at::Tensor recompute(const Segment& forward, at::TensorList inputs) {
  if (!at::GradMode::is_enabled()) return forward(inputs);
  std::vector<at::Tensor> tensors = inputs.vec();
  bool any = false;
  for (const at::Tensor& t : tensors) any = any || (t.defined() && t.requires_grad());
  if (!any) tensors.push_back(at::empty({0}).set_requires_grad(true));
  const c10::intrusive_ptr<torch::CustomClassHolder> kept = c10::make_intrusive<Kept>(forward);
  return Recompute::apply(at::TensorList(tensors), kept, static_cast<std::int64_t>(inputs.size()));
}

}  // namespace sx
