// Data parallelism over replicated parameters: when which part of the gradients is summed over
// ranks. Summing over microbatches is MainGrads' business, the collective itself the
// communicator's. The idea: gradients become complete from the last layer to the first, so buckets
// are reduced from the last to the first while backward still computes.

#include "sextant/dp/ddp.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ops/full.h>
#include <fmt/format.h>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"

namespace sx {

namespace {

struct Bucket {
  std::size_t first_slot = 0;
  std::size_t num_slots = 0;
  at::Tensor flat;  // [sum of padded slots], a view of the main gradients
};

std::vector<Bucket> cut_buckets(MainGrads& grads, std::int64_t bucket_elements) {
  std::vector<Bucket> buckets;
  const auto& slots = grads.slots();
  for (std::size_t i = 0; i < slots.size();) {
    Bucket bucket{i, 0, {}};
    std::int64_t elements = 0;
    while (i < slots.size() &&
           (bucket.num_slots == 0 || elements + slots[i].padded <= bucket_elements)) {
      elements += slots[i].padded;
      ++bucket.num_slots;
      ++i;
    }
    bucket.flat = grads.flat().narrow(0, slots[bucket.first_slot].offset, elements);
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

// One number that differs when names, shapes or dtypes differ.
std::int64_t slots_fingerprint(const MainGrads& grads) {
  std::string text;
  for (const GradSlot& slot : grads.slots()) {
    text += fmt::format("{} {} [", slot.parameter->fqn,
                        static_cast<int>(slot.parameter->tensor.scalar_type()));
    for (const std::int64_t n : slot.parameter->shape) text += fmt::format("{} ", n);
    text += "]\n";
  }
  return static_cast<std::int64_t>(xxh64(text) >> 1);
}

}  // namespace

struct Ddp::State {
  MainGrads& grads;
  Communicator& comm;
  std::vector<Bucket> buckets;
  std::vector<std::size_t> bucket_of;   // slot -> bucket
  std::vector<std::size_t> incomplete;  // bucket -> slots the last microbatch has not written yet
  std::vector<Handle> handles;
  std::size_t next = 0;  // buckets [next, end) are started; counts down
  bool reducing = false;
  bool finished = true;

  State(MainGrads& g, Communicator& c) : grads(g), comm(c) {}

  // Every rank starts the same buckets in the same order, whatever order its gradients came in.
  void start_complete_buckets() {
    while (next > 0 && incomplete[next - 1] == 0) {
      --next;
      handles.push_back(comm.start_all_reduce(buckets[next].flat, ReduceOp::kSum,
                                              {.unit = fmt::format("bucket {}", next)}));
    }
  }
};

Ddp::Ddp(MainGrads& grads, Communicator& comm, DdpOptions options)
    : state_(std::make_unique<State>(grads, comm)) {
  const std::int64_t size = options.bucket_elements > 0
                                ? options.bucket_elements
                                : std::max<std::int64_t>(40'000'000, 1'000'000 * comm.degree());
  state_->buckets = cut_buckets(grads, size);
  state_->bucket_of.resize(grads.slots().size());
  for (std::size_t b = 0; b < state_->buckets.size(); ++b) {
    const Bucket& bucket = state_->buckets[b];
    for (std::size_t i = 0; i < bucket.num_slots; ++i) state_->bucket_of[bucket.first_slot + i] = b;
  }

  const std::int64_t own = slots_fingerprint(grads);
  at::Tensor bounds = at::full({2}, own, at::kLong);
  bounds[1].neg_();
  comm.start_all_reduce(bounds, ReduceOp::kMax, {.unit = "parameter list"}).wait();
  SX_CHECK(bounds[0].item<std::int64_t>() == own && bounds[1].item<std::int64_t>() == -own,
           "ranks differ in names, shapes or dtypes of the parameters (coord {})", comm.coord());

  grads.on_grad_ready([state = state_.get()](std::size_t slot) {
    if (!state->reducing) return;
    --state->incomplete[state->bucket_of[slot]];
    state->start_complete_buckets();
  });
}

Ddp::~Ddp() { state_->grads.on_grad_ready({}); }

void Ddp::broadcast_parameters() {
  for (const GradSlot& slot : state_->grads.slots()) {
    state_->comm.start_broadcast(slot.parameter->tensor.detach(), 0, {.unit = slot.parameter->fqn})
        .wait();
  }
}

void Ddp::begin_step() {
  SX_CHECK(state_->finished, "begin_step before finish_grads of the last step");
  state_->finished = false;
  state_->reducing = false;
  state_->grads.begin_step();
}

void Ddp::backward(const at::Tensor& loss, double scale, bool is_last) {
  SX_CHECK(!state_->finished && !state_->reducing,
           "backward outside begin_step and the last microbatch");
  if (is_last) {
    state_->reducing = true;
    state_->next = state_->buckets.size();
    state_->incomplete.clear();
    for (const Bucket& bucket : state_->buckets) state_->incomplete.push_back(bucket.num_slots);
  }
  state_->grads.backward(loss, scale);
}

void Ddp::finish_grads() {
  SX_CHECK(state_->reducing && state_->next == 0,
           "finish_grads before the last microbatch's backward");
  for (Handle& handle : state_->handles) handle.wait();
  state_->handles.clear();
  state_->reducing = false;
  state_->finished = true;
}

std::int64_t Ddp::num_buckets() const { return static_cast<std::int64_t>(state_->buckets.size()); }

std::int64_t Ddp::reduce_bytes() const {
  return static_cast<std::int64_t>(state_->grads.flat().nbytes());
}

}  // namespace sx
