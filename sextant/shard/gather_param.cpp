#include "sextant/shard/gather_param.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "sextant/base/check.h"

namespace sx {
namespace {

std::int64_t row_size(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) n *= shape[i];
  return n;
}

std::vector<std::int64_t> counts(const GatherSpec& spec) {
  std::vector<std::int64_t> out;
  for (std::int64_t c = 0; c < spec.shard->degree(); ++c) {
    const ShardRows rows = shard_rows(spec.shape, spec.shard->degree(), c);
    out.push_back((rows.end - rows.begin) * row_size(spec.shape));
  }
  return out;
}

struct Spec : torch::CustomClassHolder {
  explicit Spec(GatherSpec s) : spec(std::move(s)) {}
  GatherSpec spec;
};

struct GatherParam : torch::autograd::Function<GatherParam> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& shard,
                            const c10::intrusive_ptr<torch::CustomClassHolder>& holder) {
    const GatherSpec& spec = static_cast<Spec&>(*holder).spec;
    ctx->saved_data["spec"] = c10::IValue::make_capsule(holder);
    ctx->saved_data["dtype"] = static_cast<std::int64_t>(shard.scalar_type());
    const at::Tensor own =
        shard.detach().to(spec.compute_dtype.value_or(shard.scalar_type())).contiguous();
    at::Tensor whole = at::empty(spec.shape, own.options());
    spec.shard->start_all_gather(whole.view({-1}), own.view({-1}), counts(spec)).wait();
    return whole;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto holder = ctx->saved_data["spec"].toCapsule();
    const auto dtype = static_cast<c10::ScalarType>(ctx->saved_data["dtype"].toInt());
    return {reduce_grad(grads[0], static_cast<Spec&>(*holder).spec, dtype), at::Tensor()};
  }
};

}  // namespace

ShardRows shard_rows(const std::vector<std::int64_t>& shape, std::int64_t degree,
                     std::int64_t coord) {
  const std::int64_t rows = shape.empty() ? 1 : shape[0];
  const std::int64_t chunk = (rows + degree - 1) / degree;
  return {std::min(rows, chunk * coord), std::min(rows, chunk * (coord + 1))};
}

at::Tensor gather_param(const at::Tensor& shard, const GatherSpec& spec) {
  const c10::intrusive_ptr<torch::CustomClassHolder> holder = c10::make_intrusive<Spec>(spec);
  return GatherParam::apply(shard, holder);
}

at::Tensor reduce_grad(const at::Tensor& grad, const GatherSpec& spec, c10::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  const ShardRows rows = shard_rows(spec.shape, spec.shard->degree(), spec.shard->coord());
  std::vector<std::int64_t> own_shape = spec.shape;
  if (!own_shape.empty()) own_shape[0] = rows.end - rows.begin;
  // A copy: the sum is made in place.
  const at::Tensor wire =
      at::empty(spec.shape, grad.options().dtype(spec.reduce_dtype.value_or(dtype)));
  wire.copy_(grad);
  const std::int64_t begin = rows.begin * row_size(spec.shape);
  const std::int64_t size = (rows.end - rows.begin) * row_size(spec.shape);
  if (spec.flat_order) {
    SX_CHECK(spec.flat != nullptr, "flat order needs the communicator over all ranks");
    spec.flat->start_all_reduce(wire.view({-1}), ReduceOp::kSum).wait();
    return wire.view({-1}).narrow(0, begin, size).to(dtype, false, true).view(own_shape);
  }
  const at::Tensor own = at::empty({size}, wire.options());
  spec.shard->start_reduce_scatter(own, wire.view({-1}), ReduceOp::kSum, counts(spec)).wait();
  return own.to(dtype).view(own_shape);
}

}  // namespace sx
