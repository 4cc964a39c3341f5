// A hop goes from one step of the plan to the next: the holder of a coordinate's keys sends them to
// the rank that visits them at the next step, `stride` coordinates further on.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <optional>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/cp/routes.h"
#include "sextant/cp/token_copy.h"
#include "sextant/tensor/memory_tracker.h"

namespace sx {
namespace {

constexpr std::int64_t kTagKeys = 0, kTagGrads = 1;

class RingPlace {
 public:
  explicit RingPlace(const RingRoute& route)
      : plan_(*route.plan), comm_(*route.comm), steps_(plan_.ring_steps()) {}

  std::size_t num_steps() const { return steps_.size(); }
  /// Whose keys are held at step i; at step num_steps() they are home.
  std::int64_t source(std::size_t i) const { return wrap(comm_.coord() - distance(i)); }
  std::int64_t tokens(std::size_t i) const { return plan_.num_tokens(source(i)); }

  /// Both ends of the hop from step i to i + 1.
  Handle start_hop(std::size_t i, const at::Tensor& sent, const at::Tensor& received,
                   std::int64_t tag) const {
    const std::int64_t stride = distance(i + 1) - distance(i);
    std::vector<Operation> both;
    both.push_back(collective::send(sent, wrap(comm_.coord() + stride), tag));
    both.push_back(collective::recv(received, wrap(comm_.coord() - stride), tag));
    return comm_.start_batch(std::move(both), {.unit = tag == kTagKeys ? "kv" : "kv grad"});
  }

 private:
  std::int64_t distance(std::size_t i) const {
    return i < steps_.size() ? steps_[i] : plan_.degree();
  }
  std::int64_t wrap(std::int64_t coord) const { return (coord + plan_.degree()) % plan_.degree(); }

  const CpPlan& plan_;
  Communicator& comm_;
  const std::vector<std::int64_t>& steps_;
};

/// Keys and values on their way: what is held, and a second buffer into which the next part comes.
class KeyValueRing {
 public:
  KeyValueRing(const RingRoute& route, const RingPlace& place, const at::Tensor& k,
               const at::Tensor& v)
      : place_(place), like_(k), held_{k, v} {
    if (place.num_steps() == 1) return;
    const MemoryScope scope(MemoryCategory::kCommBuffers);
    for (at::Tensor& buffer : buffers_) {
      buffer = at::empty({key_value_numel(k, route.plan->max_tokens())}, k.options());
    }
    const KeyValue own = key_value_views(buffers_[0], 0, k, k.size(1));
    own.k_BTGD.copy_(k);
    own.v_BTGD.copy_(v);
  }

  const KeyValue& held() const { return held_; }
  void start_next(std::size_t i) {
    if (i + 1 == place_.num_steps()) return;
    coming_ = place_.start_hop(i, part(i), part(i + 1), kTagKeys);
  }
  void finish_next(std::size_t i) {
    if (i + 1 == place_.num_steps()) return;
    coming_.wait();
    held_ = key_value_views(buffers_[(i + 1) % 2], 0, like_, place_.tokens(i + 1));
  }

 private:
  at::Tensor part(std::size_t i) const {
    return buffers_[i % 2].narrow(0, 0, key_value_numel(like_, place_.tokens(i)));
  }

  const RingPlace& place_;
  const at::Tensor& like_;
  KeyValue held_;
  std::array<at::Tensor, 2> buffers_;
  Handle coming_;
};

/// Gradients of keys and values follow them one step behind; each holder adds its own part.
class GradRing {
 public:
  GradRing(const RingRoute& route, const RingPlace& place, const at::Tensor& like)
      : place_(place), like_(like) {
    const MemoryScope scope(MemoryCategory::kCommBuffers);
    const at::TensorOptions options = like.options().dtype(merge_dtype(like.scalar_type()));
    const std::int64_t numel = key_value_numel(like, route.plan->max_tokens());
    fresh_ = at::empty({numel}, options);
    if (place.num_steps() == 1) return;
    for (at::Tensor& buffer : buffers_) buffer = at::empty({numel}, options);
  }

  /// Zeros for this holder's part of step i.
  KeyValue fresh(std::size_t i) {
    fresh_.zero_();
    return key_value_views(fresh_, 0, like_, place_.tokens(i));
  }
  /// Adds that part to what has come and sends it on.
  void pass_on(std::size_t i) {
    if (place_.num_steps() == 1) return;
    if (i == 0) {
      std::swap(fresh_, buffers_[0]);
    } else {
      coming_.wait();
      part(i).add_(fresh_.narrow(0, 0, part(i).numel()));
    }
    coming_ = place_.start_hop(i, part(i), part(i + 1), kTagGrads);
  }
  /// The gradients of the own keys and values.
  KeyValue come_home() {
    if (place_.num_steps() == 1) return key_value_views(fresh_, 0, like_, place_.tokens(0));
    coming_.wait();
    return key_value_views(buffers_[place_.num_steps() % 2], 0, like_, place_.tokens(0));
  }

 private:
  at::Tensor part(std::size_t i) const {
    return buffers_[i % 2].narrow(0, 0, key_value_numel(like_, place_.tokens(i)));
  }

  const RingPlace& place_;
  const at::Tensor& like_;
  at::Tensor fresh_;
  std::array<at::Tensor, 2> buffers_;
  Handle coming_;
};

}  // namespace

RingRoute::RingRoute(std::shared_ptr<const CpPlan> plan_in, Communicator& comm_in)
    : plan(std::move(plan_in)), comm(&comm_in) {
  SX_CHECK(plan->degree() == comm->degree(), "a plan for {} ranks on {}", plan->degree(),
           comm->degree());
  const RingPlace place(*this);
  for (std::size_t i = 0; i < place.num_steps(); ++i) {
    blocks.push_back(plan->blocks(comm->coord(), place.source(i)));
  }
}

AttentionState ring_forward(const RingRoute& route, const at::Tensor& q_BTND,
                            const at::Tensor& k_BTGD, const at::Tensor& v_BTGD,
                            const BlockOptions& options) {
  const RingPlace place(route);
  KeyValueRing ring(route, place, k_BTGD, v_BTGD);
  AttentionState state = empty_state(q_BTND);
  for (std::size_t i = 0; i < place.num_steps(); ++i) {
    ring.start_next(i);
    attend(state, q_BTND, ring.held().k_BTGD, ring.held().v_BTGD, route.blocks[i], options);
    ring.finish_next(i);
  }
  return state;
}

AttentionGrads ring_backward(const RingRoute& route, const at::Tensor& grad_BTND,
                             const at::Tensor& q_BTND, const at::Tensor& k_BTGD,
                             const at::Tensor& v_BTGD, const AttentionState& state,
                             const BlockOptions& options) {
  const RingPlace place(route);
  KeyValueRing ring(route, place, k_BTGD, v_BTGD);
  GradRing grads(route, place, k_BTGD);
  const at::Tensor dq =
      at::zeros(q_BTND.sizes(), q_BTND.options().dtype(merge_dtype(q_BTND.scalar_type())));
  for (std::size_t i = 0; i < place.num_steps(); ++i) {
    ring.start_next(i);
    const KeyValue fresh = grads.fresh(i);
    AttentionGrads sums{dq, fresh.k_BTGD, fresh.v_BTGD};
    attend_backward(sums, grad_BTND, q_BTND, ring.held().k_BTGD, ring.held().v_BTGD, state,
                    route.blocks[i], options);
    grads.pass_on(i);
    ring.finish_next(i);
  }
  const KeyValue own = grads.come_home();
  return {dq, own.k_BTGD, own.v_BTGD};
}

}  // namespace sx
