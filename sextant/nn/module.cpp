#include "sextant/nn/module.h"

#include <algorithm>

#include "sextant/base/check.h"
#include "sextant/tensor/padded.h"

namespace sx {

std::int64_t Parameter::numel() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

const char* to_string(HookPoint point) {
  return point == HookPoint::kPreForward ? "pre_forward" : "post_forward";
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
  SX_CHECK(dtype == c10::kFloat || dtype == c10::kDouble, "parameters are fp32 or fp64, not {}",
           c10::toString(dtype));
  for (Parameter* parameter : parameters()) {
    SX_CHECK(!parameter->tensor.defined(), "{} already has memory", parameter->fqn);
    parameter->tensor = make_padded(parameter->shape, dtype);
    parameter->tensor.set_requires_grad(true);
  }
}

std::vector<Module*> Module::units() {
  std::vector<Module*> modules, out;
  collect(modules);
  std::copy_if(modules.begin(), modules.end(), std::back_inserter(out),
               [](const Module* module) { return module->is_unit(); });
  return out;
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
    for (const HookPoint point : {HookPoint::kPreForward, HookPoint::kPostForward}) {
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

at::Tensor Module::call(const at::Tensor& input,
                        const std::function<at::Tensor(const at::Tensor&)>& forward) {
  run_hooks(HookPoint::kPreForward, input);
  at::Tensor output = forward(input);
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
