#include "sextant/nn/module.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "sextant/base/check.h"
#include "sextant/nn/recompute.h"
#include "sextant/tensor/padded.h"

namespace sx {
namespace {

/// Identity in forward; calls `run` when the gradient comes by.
struct OnGradient : torch::CustomClassHolder {
  explicit OnGradient(std::function<void(const at::Tensor&)> f) : run(std::move(f)) {}
  std::function<void(const at::Tensor&)> run;
};

struct Mark : torch::autograd::Function<Mark> {
  static torch::autograd::variable_list forward(
      torch::autograd::AutogradContext* ctx, at::TensorList tensors,
      const c10::intrusive_ptr<torch::CustomClassHolder>& hook) {
    ctx->set_materialize_grads(false);
    ctx->saved_data["hook"] = c10::IValue::make_capsule(hook);
    torch::autograd::variable_list out;
    for (const at::Tensor& t : tensors) out.push_back(t.view_as(t));
    return out;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto hook = ctx->saved_data["hook"].toCapsule();
    static_cast<OnGradient&>(*hook).run(grads[0]);
    grads.emplace_back();
    return grads;
  }
};

}  // namespace

std::int64_t Parameter::numel() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

const char* to_string(HookPoint point) {
  switch (point) {
    case HookPoint::kPreForward: return "pre_forward";
    case HookPoint::kPostForward: return "post_forward";
    case HookPoint::kPreBackward: return "pre_backward";
    case HookPoint::kPostBackward: return "post_backward";
  }
  return "?";
}

Module::Module() = default;

Module::Module(Module& parent, std::string name) {
  fqn_ = parent.fqn_.empty() ? std::move(name) : parent.fqn_ + "." + name;
  parent.children_.push_back(this);
}

Module::~Module() = default;

Parameter& Module::add_parameter(std::string name, std::vector<std::int64_t> shape, InitSpec init,
                                 bool decay) {
  auto parameter = std::make_unique<Parameter>();
  parameter->owner = this;
  parameter->fqn = fqn_.empty() ? name : fqn_ + "." + name;
  parameter->name = std::move(name);
  parameter->shape = std::move(shape);
  parameter->init = init;
  parameter->decay = decay;
  parameters_.push_back(std::move(parameter));
  return *parameters_.back();
}

void Module::collect(std::vector<Module*>& out) {
  out.push_back(this);
  for (Module* child : children_) child->collect(out);
}

std::vector<Parameter*> Module::parameters() {
  std::vector<Module*> modules;
  collect(modules);
  std::vector<Parameter*> out;
  for (Module* module : modules) {
    for (const auto& parameter : module->parameters_) out.push_back(parameter.get());
  }
  return out;
}

Parameter& Module::parameter(const std::string& fqn) {
  for (Parameter* parameter : parameters()) {
    if (parameter->fqn == fqn) return *parameter;
  }
  SX_CHECK(false, "no parameter \"{}\" among {}", fqn, parameters().size());
}

void Module::allocate(c10::ScalarType dtype) {
  SX_CHECK(c10::isFloatingType(dtype), "parameters are floats, not {}", c10::toString(dtype));
  for (Parameter* parameter : parameters()) {
    SX_CHECK(!parameter->tensor.defined(), "{} already has memory", parameter->fqn);
    parameter->tensor = make_padded(parameter->shape, parameter->dtype.value_or(dtype));
    parameter->tensor.set_requires_grad(parameter->trainable);
  }
}

std::vector<Module*> Module::units() {
  std::vector<Module*> modules, out;
  collect(modules);
  std::copy_if(modules.begin(), modules.end(), std::back_inserter(out),
               [](const Module* module) { return module->is_unit(); });
  return out;
}

void Module::collect_units(Module* above, std::vector<std::pair<Module*, Module*>>& out) {
  Module* unit = unit_ ? this : above;
  out.emplace_back(this, unit);
  for (Module* child : children_) child->collect_units(unit, out);
}

std::vector<Module*> Module::units_of_parameters() {
  std::vector<std::pair<Module*, Module*>> modules;
  collect_units(nullptr, modules);
  std::vector<Module*> out;
  for (const auto& [module, unit] : modules) {
    for (std::size_t i = 0; i < module->parameters_.size(); ++i) out.push_back(unit);
  }
  return out;
}

Module* Module::unit_of(const Module& module) {
  std::vector<std::pair<Module*, Module*>> modules;
  collect_units(nullptr, modules);
  for (const auto& [each, unit] : modules) {
    if (each == &module) return unit;
  }
  SX_CHECK(false, "\"{}\" is not below \"{}\"", module.fqn_, fqn_);
}

void Module::add_alias(std::string name, Parameter& parameter) {
  aliases_.push_back({fqn_.empty() ? std::move(name) : fqn_ + "." + name, this, &parameter});
}

std::vector<ParameterAlias> Module::aliases() {
  std::vector<Module*> modules;
  collect(modules);
  std::vector<ParameterAlias> out;
  for (const Module* module : modules) {
    out.insert(out.end(), module->aliases_.begin(), module->aliases_.end());
  }
  return out;
}

void Module::set_recompute(bool on) {
  SX_CHECK(unit_, "recompute belongs to units; \"{}\" is none", fqn_);
  recompute_ = on;
}

void Module::set_casts(std::optional<c10::ScalarType> input,
                       std::optional<c10::ScalarType> output) {
  SX_CHECK(unit_, "casts belong to units; \"{}\" is none", fqn_);
  input_dtype_ = input;
  output_dtype_ = output;
}

void Module::add_hook(HookPoint point, std::string owner, Hook hook) {
  SX_CHECK(unit_, "hooks belong to units; \"{}\" is none", fqn_);
  hooks_.push_back({point, std::move(owner), std::move(hook)});
}

void Module::remove_hooks(const std::string& owner) {
  std::vector<Module*> modules;
  collect(modules);
  for (Module* module : modules) {
    std::erase_if(module->hooks_, [&](const HookEntry& entry) { return entry.owner == owner; });
  }
}

std::vector<std::string> Module::describe_hooks() {
  std::vector<std::string> out;
  for (const Module* unit : units()) {
    for (const HookPoint point : kAllHookPoints) {
      for (const HookEntry& entry : unit->hooks_) {
        if (entry.point != point) continue;
        std::string line = to_string(point);
        line += " ";
        line += unit->fqn_.empty() ? "(root)" : unit->fqn_;
        line += " ";
        line += entry.owner;
        out.push_back(std::move(line));
      }
    }
  }
  return out;
}

void Module::run_hooks(HookPoint point, const at::Tensor& tensor) {
  for (std::size_t i = 0; i < hooks_.size(); ++i) {
    if (hooks_[i].point == point) hooks_[i].run(*this, tensor);
  }
}

bool Module::has_hook(HookPoint point) const {
  return std::any_of(hooks_.begin(), hooks_.end(),
                     [&](const HookEntry& entry) { return entry.point == point; });
}

at::Tensor Module::mark(HookPoint point, const at::Tensor& tensor) {
  const std::vector<at::Tensor> tensors{tensor};
  const c10::intrusive_ptr<torch::CustomClassHolder> hook = c10::make_intrusive<OnGradient>(
      [this, point](const at::Tensor& grad) { run_hooks(point, grad); });
  return Mark::apply(at::TensorList(tensors), hook)[0];
}

at::Tensor Module::call(const at::Tensor& given,
                        const std::function<at::Tensor(const at::Tensor&)>& forward) {
  const at::Tensor input =
      input_dtype_ && given.is_floating_point() ? given.to(*input_dtype_) : given;
  run_hooks(HookPoint::kPreForward, input);
  const bool grad_mode = at::GradMode::is_enabled();
  at::Tensor x = input;
  if (grad_mode && input.requires_grad() && has_hook(HookPoint::kPostBackward)) {
    x = mark(HookPoint::kPostBackward, input);
  }
  at::Tensor output;
  if (grad_mode && recompute_) {
    const std::vector<at::Tensor> inputs{x};
    output = recompute([forward](at::TensorList again) { return forward(again[0]); }, inputs);
  } else {
    output = forward(x);
  }
  if (output_dtype_ && output.dim() > 0) output = output.to(*output_dtype_);
  if (grad_mode && output.requires_grad() && has_hook(HookPoint::kPreBackward)) {
    output = mark(HookPoint::kPreBackward, output);
  }
  run_hooks(HookPoint::kPostForward, output);
  return output;
}

void init_parameters(Module& root, std::uint64_t seed, int num_threads) {
  for (Parameter* parameter : root.parameters()) {
    SX_CHECK(parameter->tensor.defined(), "{} has no memory yet", parameter->fqn);
    const std::int64_t rows = parameter->shape.empty() ? 1 : parameter->shape[0];
    const std::int64_t row_elements = rows == 0 ? 0 : parameter->numel() / rows;
    at::Tensor values = parameter->tensor.detach();
    fill_init(values, parameter->init, seed, parameter->fqn, row_elements, 0, num_threads);
    parameter->initialized = true;
  }
}

std::vector<std::string> uninitialized_parameters(Module& root) {
  std::vector<std::string> names;
  for (const Parameter* parameter : root.parameters()) {
    if (!parameter->initialized) names.push_back(parameter->fqn);
  }
  return names;
}

}  // namespace sx
