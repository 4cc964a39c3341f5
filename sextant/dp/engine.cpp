// When things happen: units gather before they run, release after, and their gradients are reduced
// as soon as their backward has ended, in one order on all ranks.
//
// Why no rank waits for another that waits for it: gathers are started in the order in which units
// run, reductions in an order fixed beforehand, each on a communicator of its own. When the
// backward of a unit begins, autograd has ended that of every unit whose forward ran later, used or
// not (nodes made later run first); so a unit that a rank left out or whose output it did not use
// is settled at the same place between the others' collectives as on the ranks that ran it.
#include "sextant/dp/engine.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "sextant/base/check.h"
#include "sextant/base/diagnostic.h"
#include "sextant/base/log.h"

namespace sx {

// ---- the step, as its caller sees it ----

void Engine::begin_step() {
  SX_CHECK(!in_step_, "begin_step before finish_grads of the last step");
  in_step_ = true;
  last_done_ = false;
  microbatch_ = 0;
  ++step_;
  arena_->trim();
  for (Buffer& buffer : buffers_) {
    if (buffer.memory->trainable()) buffer.memory->begin_step();
  }
  std::fill(updates_.begin(), updates_.end(), true);
}

void Engine::begin_microbatch(bool is_last) {
  SX_CHECK(in_step_ && !in_microbatch_ && !last_done_,
           "begin_microbatch outside begin_step and the last microbatch");
  SX_CHECK(!is_last || no_sync_ == 0, "the last microbatch of a step reduces: not inside NoSync");
  in_microbatch_ = true;
  is_last_ = is_last;
  ++microbatch_;
  calls_.clear();
  open_.clear();
  moment_ = 0;
  next_reduce_ = 0;
  for (Unit& unit : units_) unit.outstanding = 0;
  for (Buffer& buffer : buffers_) {
    buffer.complete = buffer.dispatched = false;
    if (buffer.memory->trainable()) buffer.memory->begin_microbatch();
  }
  plan_.begin_microbatch();
  prefetch(units_.size());
}

void Engine::backward(const at::Tensor& loss, double scale) {
  SX_CHECK(in_microbatch_, "backward outside a microbatch");
  in_backward_ = true;
  hooks_->backward(loss, scale);
  end_backward();
}

void Engine::shadow_microbatch(bool is_last) {
  begin_microbatch(is_last);
  if (plan_.known()) {
    const std::vector<GatherEvent> events = plan_.events();
    for (const GatherEvent& event : events) {
      if (event.phase == GatherPhase::kForward) skip(*units_[event.unit].module);
    }
  } else {
    // The root comes first among the units and runs last.
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (units_[u].module != &root_) skip(*units_[u].module);
    }
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (units_[u].module == &root_) skip(root_);
    }
  }
  in_backward_ = true;
  end_backward();
}

bool Engine::any_rank_has(bool data) {
  const at::Tensor flag = at::full({1}, data ? 1 : 0, at::kLong);
  comms_.world().start_all_reduce(flag, ReduceOp::kMax, {.unit = "data left"}).wait();
  return flag.item<std::int64_t>() != 0;
}

void Engine::skip(Module& unit) {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (units_[u].module != &unit) continue;
    SX_CHECK(in_microbatch_ && !in_backward_, "{}: skipped outside a forward", units_[u].name);
    const at::AutoGradMode grad_mode(true);
    pre_forward(u);
    post_forward(u, !plan_.known() || plan_.contains({u, GatherPhase::kBackward}));
    return;
  }
  SX_CHECK(false, "\"{}\" is no unit of this engine", unit.fqn());
}

void Engine::finish_grads() {
  SX_CHECK(in_step_ && last_done_, "finish_grads before the last microbatch's backward");
  if (replicating_ != nullptr) replicating_->finish_replicate();
  replicating_ = storing_ = nullptr;
  for (Buffer& buffer : buffers_) buffer.memory->wait_store();
  compare_plans();
  agree_on_unused();
  // The other ranks of a rehearsal are not there and have called nothing.
  const bool alone = std::string_view(comms_.world().capabilities().transport) == "fake";
  const ScheduleCount count{"microbatches", microbatch_};
  if (!alone) comms_.world().session().check_schedules(comms_.world(), {&count, 1});
  in_step_ = false;
}

StepSums Engine::step_sums(std::span<const std::int64_t> sums) {
  ExactSum own;
  for (const Buffer& buffer : buffers_) buffer.memory->add_squares(own);
  return reduce_step_sums(own, comms_.world(), sums);
}

double Engine::clip(double norm, double max_norm) {
  const double coefficient = clip_coefficient(norm, max_norm);
  if (coefficient < 1.0) scale_grads(coefficient);
  return coefficient;
}

void Engine::scale_grads(double factor) {
  for (Buffer& buffer : buffers_) buffer.memory->scale_grads(factor);
}

void Engine::commit() {
  SX_CHECK(!in_step_, "commit before finish_grads");
  // First parameters first: they are needed first.
  for (std::size_t i = reduce_order_.size(); i-- > 0;) {
    UnitBuffer& memory = *buffers_[reduce_order_[i]].memory;
    memory.publish();
    if (!policy_.overlap_param_gather) memory.wait_params();
  }
}

void Engine::publish() {
  for (Buffer& buffer : buffers_) {
    buffer.memory->publish();
    buffer.memory->wait_params();
  }
}

void Engine::abort_iteration() noexcept {
  for (Buffer& buffer : buffers_) {
    buffer.memory->abort();
    buffer.ahead = buffer.complete = buffer.dispatched = false;
  }
  if (hooks_) hooks_->reset();
  calls_.clear();
  open_.clear();
  reducing_ = replicating_ = storing_ = nullptr;
  for (Unit& unit : units_) unit.outstanding = 0;
  in_step_ = in_microbatch_ = in_backward_ = last_done_ = false;
}

// ---- hooks ----

void Engine::pre_forward(std::size_t unit) {
  if (in_microbatch_ && at::GradMode::is_enabled()) {
    plan_.note({unit, GatherPhase::kForward});
    gather(unit);
    prefetch(unit);
    open_.push_back(calls_.size());
    calls_.push_back({.unit = unit, .begin = moment_++});
    ++units_[unit].outstanding;
    return;
  }
  gather(unit);
}

void Engine::post_forward(std::size_t unit, bool wants_backward) {
  if (in_microbatch_ && at::GradMode::is_enabled()) {
    SX_CHECK(!open_.empty() && calls_[open_.back()].unit == unit, "{}: its forward did not begin",
             units_[unit].name);
    Call& call = calls_[open_.back()];
    open_.pop_back();
    call.end = moment_++;
    call.wants_backward = wants_backward;
    release_after_forward(unit);
    return;
  }
  for (const std::size_t b : units_[unit].buffers) {
    if (!buffers_[b].ahead) buffers_[b].memory->release();
  }
}

void Engine::pre_backward(std::size_t unit) {
  if (!in_backward_) return;
  Call* call = nullptr;
  for (Call& each : calls_) {
    if (each.unit == unit && !each.started && !each.finished && (!call || each.end > call->end))
      call = &each;
  }
  SX_CHECK(call != nullptr, "{}: backward without a forward in this microbatch", units_[unit].name);
  call->started = true;
  finish_calls_after(call->end);
  plan_.note({unit, GatherPhase::kBackward});
  gather(unit);
  prefetch(unit);
}

void Engine::post_backward(std::size_t unit) {
  if (!in_backward_) return;
  Call* call = nullptr;
  for (Call& each : calls_) {
    if (each.unit == unit && each.started && !each.finished && (!call || each.end < call->end))
      call = &each;
  }
  if (call == nullptr) return;
  finish_calls_after(call->begin);
  finish_call(*call);
}

// ---- parameters ----

void Engine::gather(std::size_t unit) {
  for (const std::size_t b : units_[unit].buffers) buffers_[b].memory->start_gather();
  for (const std::size_t b : units_[unit].buffers) {
    buffers_[b].memory->wait_gather();
    buffers_[b].ahead = false;
  }
}

/// Starts gathers of the units that the plan says come next, as far as the budget reaches.
/// `current`: the unit that runs; units_.size() before the first.
void Engine::prefetch(std::size_t current) {
  if (!plan_agreed_ || prefetch_budget_ == 0 || !plan_.follows()) return;
  std::int64_t held = 0;
  for (const Buffer& buffer : buffers_) {
    if (buffer.ahead) held += buffer.memory->gathered_bytes();
  }
  if (current < units_.size()) {
    for (const std::size_t b : units_[current].buffers) {
      if (buffers_[b].memory->params_sharded()) held += buffers_[b].memory->gathered_bytes();
    }
  }
  for (const GatherEvent& event : plan_.ahead()) {
    if (event.unit == current) continue;
    for (const std::size_t b : units_[event.unit].buffers) {
      UnitBuffer& memory = *buffers_[b].memory;
      if (!memory.params_sharded() || is_gathered(memory.state()) || is_gathering(memory.state()))
        continue;
      if (held + memory.gathered_bytes() > prefetch_budget_) return memory.start_fetch();
      memory.start_gather();
      buffers_[b].ahead = true;
      held += memory.gathered_bytes();
    }
  }
}

void Engine::release_after_forward(std::size_t unit) {
  for (const std::size_t b : units_[unit].buffers) {
    UnitBuffer& memory = *buffers_[b].memory;
    if (!memory.params_sharded() || buffers_[b].units.size() > 1) continue;
    const Reshard& reshard = memory.policy().reshard_after_forward;
    if (plan_.next_is({unit, GatherPhase::kBackward})) continue;
    switch (reshard.kind) {
      case Reshard::Kind::kAuto:
        if (units_[unit].module != &root_) memory.release();
        break;
      case Reshard::Kind::kAlways: memory.release(); break;
      case Reshard::Kind::kNever: break;
      case Reshard::Kind::kKeepShard: memory.release(reshard.ways); break;
      case Reshard::Kind::kFits:
        if (!units_[unit].keep_fits) memory.release();
        break;
    }
  }
}

void Engine::release_after_backward(Buffer& buffer) {
  if (buffer.memory->policy().reshard_after_backward || is_last_) buffer.memory->release();
}

// ---- gradients ----

/// Calls whose forward began after `moment` are done, latest first.
void Engine::finish_calls_after(std::int64_t moment) {
  for (std::size_t i = calls_.size(); i-- > 0;) {
    if (calls_[i].begin > moment && !calls_[i].finished) finish_call(calls_[i]);
  }
}

void Engine::finish_call(Call& call) {
  if (call.wants_backward && !call.started) {
    // Other ranks run its backward: this one gathers with them.
    plan_.note({call.unit, GatherPhase::kBackward});
    gather(call.unit);
    prefetch(call.unit);
  }
  call.finished = true;
  Unit& unit = units_[call.unit];
  if (--unit.outstanding > 0) return;
  for (const std::size_t b : unit.buffers) {
    const bool all = std::all_of(buffers_[b].units.begin(), buffers_[b].units.end(),
                                 [&](std::size_t u) { return units_[u].outstanding == 0; });
    if (all) complete(b);
  }
}

/// Whether the buffer's gradients are reduced after this microbatch.
bool Engine::due(const Buffer& buffer) const {
  if (!buffer.memory->trainable()) return false;
  if (is_last_) return true;
  return no_sync_ == 0 &&
         accumulation(buffer.memory->policy(), comms_.num_shards()) == Accumulate::kReduced;
}

void Engine::complete(std::size_t index) {
  Buffer& buffer = buffers_[index];
  if (buffer.complete) return;
  buffer.complete = true;
  if (buffer.memory->trainable()) buffer.memory->fill_unused();
  if (!due(buffer)) {
    buffer.dispatched = true;
    release_after_backward(buffer);
  }
  dispatch_reductions();
}

void Engine::dispatch_reductions() {
  while (next_reduce_ < reduce_order_.size() && buffers_[reduce_order_[next_reduce_]].complete) {
    Buffer& buffer = buffers_[reduce_order_[next_reduce_++]];
    if (buffer.dispatched) continue;
    finish_reduction();
    buffer.memory->start_reduce(is_last_);
    buffer.dispatched = true;
    reducing_ = buffer.memory.get();
    release_after_backward(buffer);
    if (!policy_.overlap_reduce) finish_reduction();
  }
}

void Engine::finish_reduction() {
  if (reducing_ == nullptr) return;
  UnitBuffer* done = std::exchange(reducing_, nullptr);
  if (replicating_ != nullptr && is_last_) {
    replicating_->finish_replicate();
    note_store(std::exchange(replicating_, nullptr));
  }
  done->finish_reduce();
  if (done->replicating()) {
    replicating_ = done;
  } else {
    note_store(done);
  }
}

/// One buffer's sums at a time are on their way to the store, whatever the depth of the model.
void Engine::note_store(UnitBuffer* buffer) {
  if (storing_ != nullptr && storing_ != buffer) storing_->wait_store();
  storing_ = buffer;
}

void Engine::end_backward() {
  finish_calls_after(-1);
  for (std::size_t b = 0; b < buffers_.size(); ++b) complete(b);
  finish_reduction();
  for (Buffer& buffer : buffers_) {
    if (is_gathering(buffer.memory->state())) buffer.memory->wait_gather();
    buffer.ahead = false;
    release_after_backward(buffer);
  }
  in_microbatch_ = in_backward_ = false;
  last_done_ = is_last_;
  if (is_last_) check_strict();
  if (!any_sharded_) return;
  const std::vector<GatherEvent> before = plan_.events();
  if (plan_.end_microbatch()) {
    plans_compared_ = false;
    plan_agreed_ = false;
    if (comms_.world().coord() == 0) {
      SX_LOG(kWarn, "dp.plan_changed", "step", step_, "before",
             GatherPlan::describe(before, unit_names()), "now",
             GatherPlan::describe(plan_.events(), unit_names()));
    }
  }
}

/// A plan is followed once all ranks have recorded the same. Where parameters are gathered, a rank
/// that changes its order alone has long differed from the others in a gather.
void Engine::compare_plans() {
  if (!any_sharded_ || plans_compared_) return;
  const auto own = static_cast<std::int64_t>(plan_.hash() >> 1);
  at::Tensor bounds = at::full({2}, own, at::kLong);
  bounds[1].neg_();
  comms_.world().start_all_reduce(bounds, ReduceOp::kMax, {.unit = "gather plan"}).wait();
  plan_agreed_ = bounds[0].item<std::int64_t>() == own && bounds[1].item<std::int64_t>() == -own;
  plans_compared_ = true;
}

void Engine::check_strict() const {
  if (policy_.unused != Unused::kStrict) return;
  for (const std::size_t p : trainable_) {
    const Place place = places_[p];
    const Buffer& buffer = buffers_[place.buffer];
    if (buffer.memory->ever_taken(place.index)) continue;
    throw ConfigError(Diagnostic{
        .exit = ExitCode::kUser,
        .number = 37,
        .what = fmt::format("rank {}: {} got no gradient in step {}", comms_.world().global_rank(),
                            parameters_[p]->fqn, step_),
        .where = fmt::format("unit {}", buffer.memory->name()),
        .rule = "parallelism.dp.unused is \"strict\": every parameter takes part in every step",
        .next = "parallelism.dp.unused=zero, or freeze the parameter"});
  }
}

void Engine::agree_on_unused() {
  if (policy_.unused != Unused::kKeep || owned_.empty()) return;
  const at::Tensor used = at::zeros({static_cast<std::int64_t>(owned_.size())}, at::kLong);
  auto* u = used.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < owned_.size(); ++i) {
    const Place place = places_[trainable_[i]];
    u[i] = buffers_[place.buffer].memory->ever_taken(place.index) ? 1 : 0;
  }
  comms_.world().start_all_reduce(used, ReduceOp::kMax, {.unit = "used parameters"}).wait();
  for (std::size_t i = 0; i < owned_.size(); ++i) updates_[i] = u[i] != 0;
}

// ---- views ----

std::vector<const UnitBuffer*> Engine::buffers() const {
  std::vector<const UnitBuffer*> out;
  for (const Buffer& buffer : buffers_) out.push_back(buffer.memory.get());
  return out;
}

std::vector<std::string> Engine::unit_names() const {
  std::vector<std::string> names;
  for (const Unit& unit : units_) names.push_back(unit.name);
  return names;
}

Engine::Place Engine::place_of(const std::string& fqn) const {
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    if (parameters_[p]->fqn == fqn) return places_[p];
  }
  SX_CHECK(false, "no parameter \"{}\"", fqn);
}

at::Tensor Engine::whole_parameter(const std::string& fqn) {
  const Place place = place_of(fqn);
  return buffers_[place.buffer].memory->whole_master(place.index);
}

at::Tensor Engine::whole_gradient(const std::string& fqn) {
  const Place place = place_of(fqn);
  return buffers_[place.buffer].memory->whole_grad(place.index);
}

}  // namespace sx
