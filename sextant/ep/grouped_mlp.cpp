#include "sextant/ep/grouped_mlp.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <numeric>

#include "sextant/base/check.h"
#include "sextant/nn/layers.h"
#include "sextant/tensor/init.h"

namespace sx {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct GroupedLinear : torch::autograd::Function<GroupedLinear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::vector<std::int64_t>& rows) {
    ctx->save_for_backward({x, weight});
    ctx->saved_data["rows"] = rows;
    at::Tensor out = at::empty({x.size(0), weight.size(1)}, x.options());
    std::int64_t begin = 0;
    for (std::size_t g = 0; g < rows.size(); begin += rows[g++]) {
      if (rows[g] == 0) continue;
      at::Tensor part = out.narrow(0, begin, rows[g]);
      at::mm_out(part, x.narrow(0, begin, rows[g]),
                 weight.select(0, static_cast<std::int64_t>(g)).t());
    }
    out.narrow(0, begin, x.size(0) - begin).zero_();
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const std::vector<std::int64_t> rows = ctx->saved_data["rows"].toIntVector();
    const at::Tensor grad = grads[0].contiguous();
    at::Tensor grad_x, grad_weight;
    if (ctx->needs_input_grad(0)) grad_x = at::empty(x.sizes(), x.options());
    if (ctx->needs_input_grad(1)) grad_weight = at::empty(weight.sizes(), weight.options());
    std::int64_t begin = 0;
    for (std::size_t g = 0; g < rows.size(); begin += rows[g++]) {
      const auto group = static_cast<std::int64_t>(g);
      const at::Tensor own = grad.narrow(0, begin, rows[g]);
      if (grad_weight.defined()) {
        at::Tensor part = grad_weight.select(0, group);
        if (rows[g] == 0) {
          part.zero_();
        } else {
          at::mm_out(part, own.t(), x.narrow(0, begin, rows[g]));
        }
      }
      if (grad_x.defined() && rows[g] > 0) {
        at::Tensor part = grad_x.narrow(0, begin, rows[g]);
        at::mm_out(part, own, weight.select(0, group));
      }
    }
    if (grad_x.defined()) grad_x.narrow(0, begin, x.size(0) - begin).zero_();
    return {grad_x, grad_weight, at::Tensor()};
  }
};

InitSpec normal_init(double std) { return {InitKind::kNormal, 0.0, std}; }

}  // namespace

at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weight,
                          std::vector<std::int64_t> rows_of_group) {
  const std::int64_t total =
      std::accumulate(rows_of_group.begin(), rows_of_group.end(), std::int64_t{0});
  SX_CHECK(weight.dim() == 3 && x.dim() == 2 && x.size(1) == weight.size(2) &&
               static_cast<std::int64_t>(rows_of_group.size()) == weight.size(0),
           "rows of width {} times {} matrices in {} groups", x.size(-1), weight.size(0),
           rows_of_group.size());
  SX_CHECK(total <= x.size(0), "{} rows in groups, {} given", total, x.size(0));
  return GroupedLinear::apply(x, weight, rows_of_group);
}

Experts::Experts(Module& parent, std::string name, const ModelShape& shape, std::int64_t ep_degree,
                 std::int64_t ep_coord, std::int64_t etp_degree, std::int64_t etp_coord)
    : Module(parent, std::move(name)), activation_(shape.activation), width_(shape.hidden) {
  SX_CHECK(shape.num_experts % ep_degree == 0, "{} experts on ep = {} coordinates",
           shape.num_experts, ep_degree);
  SX_CHECK(shape.expert_hidden % etp_degree == 0, "expert_hidden = {} over etp = {}",
           shape.expert_hidden, etp_degree);
  part_ = {.num_experts = shape.num_experts,
           .first = ep_coord * (shape.num_experts / ep_degree),
           .count = shape.num_experts / ep_degree,
           .hidden = shape.expert_hidden,
           .first_hidden = etp_coord * (shape.expert_hidden / etp_degree),
           .count_hidden = shape.expert_hidden / etp_degree};
  const double residual = shape.init_std / std::sqrt(2.0 * static_cast<double>(shape.num_layers));
  const std::vector<std::int64_t> in{part_.count, part_.count_hidden, width_};
  if (is_gated(activation_)) {
    gate_ = &add_parameter("gate.weight", in, normal_init(shape.init_std), true);
  }
  up_ = &add_parameter("up.weight", in, normal_init(shape.init_std), true);
  down_ = &add_parameter("down.weight", {part_.count, width_, part_.count_hidden},
                         normal_init(residual), true);
}

at::Tensor Experts::forward(const ExpertRows& rows) const {
  const auto product = [&](const at::Tensor& x, const Parameter& weight) {
    return grouped_linear(x, weight.tensor.to(x.scalar_type()), rows.rows_of_expert);
  };
  at::Tensor y;
  if (gate_ != nullptr) {
    y = activate(activation_, product(rows.rows_RH, *gate_)).mul(product(rows.rows_RH, *up_));
  } else {
    y = activate(activation_, product(rows.rows_RH, *up_));
  }
  // In the wider of both dtypes: the router's.
  return product(y.mul(rows.weights_R.unsqueeze(1)).to(y.scalar_type()), *down_);
}

void Experts::init(std::uint64_t seed, int num_threads) {
  for (Parameter* parameter : parameters()) {
    SX_CHECK(parameter->tensor.defined(), "{} has no memory yet", parameter->fqn);
    const bool is_down = parameter == down_;
    const std::int64_t rows = is_down ? width_ : part_.hidden;
    const std::int64_t columns = is_down ? part_.hidden : width_;
    const at::Tensor values = parameter->tensor.detach();
    for (std::int64_t e = 0; e < part_.count; ++e) {
      const std::int64_t begin = (part_.first + e) * rows * columns;
      if (!is_down || part_.count_hidden == part_.hidden) {
        at::Tensor own = values.select(0, e).view({-1});
        fill_init(own, parameter->init, seed, parameter->fqn, rows * columns,
                  begin + (is_down ? 0 : part_.first_hidden * columns), num_threads);
        continue;
      }
      for (std::int64_t row = 0; row < rows; ++row) {
        at::Tensor own = values.select(0, e).select(0, row);
        fill_init(own, parameter->init, seed, parameter->fqn, rows * columns,
                  begin + row * columns + part_.first_hidden, num_threads);
      }
    }
    parameter->initialized = true;
  }
}

}  // namespace sx
