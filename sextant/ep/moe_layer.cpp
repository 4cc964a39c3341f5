#include "sextant/ep/moe_layer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/sigmoid.h>

#include <cmath>

#include "sextant/base/check.h"
#include "sextant/nn/layers.h"

namespace sx {
namespace {

RouterOptions router_options(const ModelShape& shape, RouterOptions options) {
  options.num_experts = shape.num_experts;
  options.topk = shape.experts_topk;
  return options;
}

std::int64_t shared_width(const ModelShape& shape) {
  return shape.num_shared_experts * shape.shared_expert_hidden;
}

}  // namespace

SharedExperts::SharedExperts(Module& parent, std::string name, const ModelShape& shape, bool gated)
    : Module(parent, std::move(name)),
      activation_(shape.activation),
      gate_(is_gated(shape.activation)
                ? std::make_unique<Linear>(*this, "gate", shared_width(shape), shape.hidden, false,
                                           shape.init_std)
                : nullptr),
      up_(*this, "up", shared_width(shape), shape.hidden, false, shape.init_std),
      down_(*this, "down", shape.hidden, shared_width(shape), false,
            shape.init_std / std::sqrt(2.0 * static_cast<double>(shape.num_layers))),
      scale_(gated
                 ? std::make_unique<Linear>(*this, "scale", 1, shape.hidden, false, shape.init_std)
                 : nullptr) {}

at::Tensor SharedExperts::forward(const at::Tensor& x) const {
  const at::Tensor y = gate_ ? activate(activation_, gate_->forward(x)).mul(up_.forward(x))
                             : activate(activation_, up_.forward(x));
  const at::Tensor out = down_.forward(y);
  return scale_ ? out.mul(at::sigmoid(scale_->forward(x))) : out;
}

MoeLayer::MoeLayer(Module& parent, std::string name, const ModelShape& shape,
                   const MoeOptions& options, MoeGroups groups)
    : Module(parent, std::move(name)),
      options_(options),
      groups_(groups),
      router_(*this, "router", shape.hidden, router_options(shape, options.router), shape.init_std),
      experts_(*this, "experts", shape, groups.ep.degree(), groups.ep.coord(), groups.etp.degree(),
               groups.etp.coord()),
      shared_(shape.num_shared_experts > 0
                  ? std::make_unique<SharedExperts>(*this, "shared", shape, options.shared_gate)
                  : nullptr),
      state_(shape.num_experts, shape.experts_topk) {
  stats_.choices.assign(static_cast<std::size_t>(shape.num_experts), 0);
}

Routing MoeLayer::routed(const at::Tensor& x_TH, const at::Tensor& padding_T,
                         const MoeContext& context, std::int64_t num_sequences) {
  Routing routing = router_.forward(x_TH, padding_T);
  const BalanceInput input{routing, num_sequences, padding_T, context.routed,
                           context.num_microbatches};
  // The losses hang on the weights: the only way from the router into the rest of the model.
  at::Tensor weights = routing.weights_TK;
  const bool counts = at::GradMode::is_enabled();
  const auto attach = [&](const at::Tensor& loss, double coeff, double& sum) {
    weights = attach_loss(weights, loss, coeff * context.grad_seed);
    if (counts) sum += loss.detach().to(c10::kDouble).item<double>();
  };
  const BalanceOptions& balance = options_.balance;
  if (balance.aux_coeff != 0.0) {
    attach(aux_loss(input, balance.scope, router_.options(), groups_.sequence, state_.shares()),
           balance.aux_coeff, stats_.aux);
  }
  if (balance.z_coeff != 0.0) attach(z_loss(input), balance.z_coeff, stats_.z);
  routing.weights_TK = weights;
  return routing;
}

void MoeLayer::record(const Routing& routing, const at::Tensor& kept_TK,
                      std::int64_t num_sequences) {
  if (!at::GradMode::is_enabled()) return;
  const at::Tensor counts =
      count_choices(routing.experts_TK, num_sequences, router_.options().num_experts);
  state_.count(counts);
  const at::Tensor sum = counts.sum(0);
  for (std::size_t e = 0; e < stats_.choices.size(); ++e) {
    stats_.choices[e] += sum.const_data_ptr<std::int64_t>()[e];
  }
  stats_.dropped += routing.experts_TK.ne(kept_TK).sum().item<std::int64_t>();
}

at::Tensor MoeLayer::forward(const at::Tensor& x_BSH, const MoeContext& context) {
  SX_CHECK(x_BSH.dim() == 3, "x is [batch, tokens, hidden]");
  const std::int64_t batch = x_BSH.size(0), tokens = batch * x_BSH.size(1);
  const at::Tensor x_TH = x_BSH.reshape({tokens, x_BSH.size(2)});
  const auto flat = [&](const at::Tensor& t) { return t.defined() ? t.reshape({tokens}) : t; };
  const at::Tensor padding_T = flat(context.padding_BS);
  const Routing routing = routed(x_TH, padding_T, context, batch);
  const at::Tensor kept_TK =
      apply_capacity({routing.experts_TK, routing.weights_TK, batch, padding_T,
                      flat(context.positions_BS), router_.options().num_experts},
                     options_.capacity, groups_.sequence);
  record(routing, kept_TK, batch);

  const auto dispatch =
      make_dispatch({groups_.ep, groups_.etp}, router_.options().num_experts,
                    {.kind = options_.dispatch, .order = options_.order, .unit = fqn()});
  dispatch->start_dispatch(x_TH, routing.weights_TK, kept_TK);
  at::Tensor shared;
  if (shared_) shared = shared_->forward(x_TH);
  const ExpertRows rows = dispatch->finish_dispatch();
  dispatch->start_combine(experts_.forward(rows));
  at::Tensor y = dispatch->finish_combine();
  if (shared_) y = y.add(shared);
  return y.reshape(x_BSH.sizes());
}

void MoeLayer::init(std::uint64_t seed, int num_threads) {
  init_parameters(router_, seed, num_threads);
  if (shared_) init_parameters(*shared_, seed, num_threads);
  experts_.init(seed, num_threads);
}

void MoeLayer::finish_step(Communicator& tokens) {
  Parameter* bias = router_.score_bias();
  state_.finish_step(tokens, bias == nullptr ? at::Tensor() : bias->tensor,
                     options_.balance.bias_update_rate);
}

MoeStats MoeLayer::take_stats() {
  MoeStats taken = stats_;
  stats_ = MoeStats{};
  stats_.choices.assign(taken.choices.size(), 0);
  return taken;
}

std::vector<ParamUse> MoeLayer::dense_uses() {
  std::vector<ParamUse> uses;
  const auto add = [&](Module& module) {
    for (const Parameter* parameter : module.parameters()) {
      if (parameter->trainable) uses.push_back({.fqn = parameter->fqn});
    }
  };
  add(router_);
  if (shared_) add(*shared_);
  return uses;
}

std::vector<ParamUse> MoeLayer::expert_uses() {
  std::vector<ParamUse> uses;
  for (const Parameter* parameter : experts_.parameters()) {
    ParamUse use{.fqn = parameter->fqn};
    use.on(Axis::kEp) = SpmdType::kVarying;
    use.on(Axis::kEtp) = SpmdType::kVarying;
    uses.push_back(use);
  }
  return uses;
}

}  // namespace sx
