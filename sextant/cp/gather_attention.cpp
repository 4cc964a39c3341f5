#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "sextant/base/check.h"
#include "sextant/cp/routes.h"
#include "sextant/cp/token_copy.h"
#include "sextant/tensor/memory_tracker.h"

namespace sx {
namespace {

/// Elements of [K | V] that each coordinate has.
std::vector<std::int64_t> key_value_counts(const CpPlan& plan, const at::Tensor& k) {
  std::vector<std::int64_t> counts;
  for (std::int64_t r = 0; r < plan.degree(); ++r) {
    counts.push_back(key_value_numel(k, plan.num_tokens(r)));
  }
  return counts;
}

/// Keys and values of the whole row in its order, on every rank.
KeyValue gather_row(const GatherRoute& route, const at::Tensor& k, const at::Tensor& v) {
  const MemoryScope scope(MemoryCategory::kCommBuffers);
  const CpPlan& plan = *route.plan;
  const at::Tensor by_coord = at::empty({key_value_numel(k, plan.num_tokens())}, k.options());
  const std::vector<std::int64_t> counts = key_value_counts(plan, k);
  std::int64_t offset = 0;
  for (std::int64_t r = 0; r < route.comm->coord(); ++r) {
    offset += counts[static_cast<std::size_t>(r)];
  }
  const std::int64_t own_count = counts[static_cast<std::size_t>(route.comm->coord())];
  const KeyValue own = key_value_views(by_coord, offset, k, k.size(1));
  own.k_BTGD.copy_(k);
  own.v_BTGD.copy_(v);
  route.comm
      ->start_all_gather(by_coord, by_coord.narrow(0, offset, own_count), counts, {.unit = "kv"})
      .wait();
  const at::Tensor row = at::empty_like(by_coord);
  const KeyValue whole = key_value_views(row, 0, k, plan.num_tokens());
  offset = 0;
  for (std::int64_t r = 0; r < plan.degree(); ++r) {
    const KeyValue part = key_value_views(by_coord, offset, k, plan.num_tokens(r));
    put_tokens(whole.k_BTGD, part.k_BTGD, plan.tokens(r));
    put_tokens(whole.v_BTGD, part.v_BTGD, plan.tokens(r));
    offset += counts[static_cast<std::size_t>(r)];
  }
  return whole;
}

}  // namespace

GatherRoute::GatherRoute(std::shared_ptr<const CpPlan> plan_in, Communicator& comm_in)
    : plan(std::move(plan_in)), comm(&comm_in) {
  SX_CHECK(plan->degree() == comm->degree(), "a plan for {} ranks on {}", plan->degree(),
           comm->degree());
  blocks = plan->row_blocks(comm->coord());
}

AttentionState gather_forward(const GatherRoute& route, const at::Tensor& q_BTND,
                              const at::Tensor& k_BTGD, const at::Tensor& v_BTGD,
                              const BlockOptions& options) {
  const KeyValue row = gather_row(route, k_BTGD, v_BTGD);
  AttentionState state = empty_state(q_BTND);
  attend(state, q_BTND, row.k_BTGD, row.v_BTGD, route.blocks, options);
  return state;
}

AttentionGrads gather_backward(const GatherRoute& route, const at::Tensor& grad_BTND,
                               const at::Tensor& q_BTND, const at::Tensor& k_BTGD,
                               const at::Tensor& v_BTGD, const AttentionState& state,
                               const BlockOptions& options) {
  const CpPlan& plan = *route.plan;
  const at::TensorOptions merged = q_BTND.options().dtype(merge_dtype(q_BTND.scalar_type()));
  const std::vector<std::int64_t> counts = key_value_counts(plan, k_BTGD);
  at::Tensor sent;
  AttentionGrads sums{at::zeros(q_BTND.sizes(), merged), {}, {}};
  {
    const KeyValue row = gather_row(route, k_BTGD, v_BTGD);
    const MemoryScope scope(MemoryCategory::kCommBuffers);
    sums.k = at::zeros(row.k_BTGD.sizes(), merged);
    sums.v = at::zeros(row.v_BTGD.sizes(), merged);
    attend_backward(sums, grad_BTND, q_BTND, row.k_BTGD, row.v_BTGD, state, route.blocks, options);
  }
  const MemoryScope scope(MemoryCategory::kCommBuffers);
  sent = at::empty({key_value_numel(k_BTGD, plan.num_tokens())}, merged);
  std::int64_t offset = 0;
  for (std::int64_t r = 0; r < plan.degree(); ++r) {
    const KeyValue part = key_value_views(sent, offset, k_BTGD, plan.num_tokens(r));
    take_tokens(part.k_BTGD, sums.k, plan.tokens(r));
    take_tokens(part.v_BTGD, sums.v, plan.tokens(r));
    offset += counts[static_cast<std::size_t>(r)];
  }
  const at::Tensor own = at::empty({key_value_numel(k_BTGD, k_BTGD.size(1))}, merged);
  route.comm->start_reduce_scatter(own, sent, ReduceOp::kSum, counts, {.unit = "kv grad"}).wait();
  const KeyValue home = key_value_views(own, 0, k_BTGD, k_BTGD.size(1));
  return {sums.q, home.k_BTGD, home.v_BTGD};
}

}  // namespace sx
