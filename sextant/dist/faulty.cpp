#include "sextant/dist/faulty.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <thread>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/base/rng.h"
#include "sextant/dist/detail/descriptor.h"
#include "sextant/dist/detail/transport.h"

namespace sx {
namespace {

/// The plan and how far one rank has come in it.
struct FaultProgress {
  std::shared_ptr<const FaultPlan> plan;
  std::vector<std::uint64_t> calls;  // by fault: calls of this rank that it counts
};

void flip_bit(Operation& o, std::uint64_t bit) {
  if (!o.in.defined() || o.in.nbytes() == 0) return;
  const bool in_place = o.out.defined() && o.in.const_data_ptr() == o.out.const_data_ptr();
  if (!in_place) o.in = o.in.clone();
  auto* bytes = static_cast<std::uint8_t*>(o.in.mutable_data_ptr());
  bit %= static_cast<std::uint64_t>(o.in.nbytes()) * 8;
  bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] ^ (1u << (bit % 8)));
}

class FaultyTransport final : public detail::Transport {
 public:
  FaultyTransport(std::unique_ptr<detail::Transport> inner, std::shared_ptr<FaultProgress> progress)
      : inner_(std::move(inner)), progress_(std::move(progress)) {}

  const detail::GroupInfo& group() const override { return inner_->group(); }
  const Capabilities& capabilities() const override { return inner_->capabilities(); }
  void abort(const std::string& reason) override { inner_->abort(reason); }
  std::unique_ptr<detail::Transport> make_group(detail::GroupInfo group) override {
    return std::make_unique<FaultyTransport>(inner_->make_group(std::move(group)), progress_);
  }

  std::shared_ptr<detail::PendingOperation> start(Operation operation,
                                                  detail::Descriptor descriptor,
                                                  Seconds timeout) override {
    const std::int64_t rank = group().global_ranks[static_cast<std::size_t>(group().coord)];
    const auto& faults = progress_->plan->faults;
    bool dropped = false;
    for (std::size_t i = 0; i < faults.size(); ++i) {
      const Fault& fault = faults[i];
      if (fault.rank != rank || (fault.axis && !(*fault.axis == group().axis))) continue;
      if (progress_->calls[i]++ != fault.call) continue;
      switch (fault.kind) {
        case FaultKind::kCrash:
          throw InjectedCrash(fmt::format("injected crash on rank {} at call {}: {}", rank,
                                          fault.call, descriptor.to_string()));
        case FaultKind::kSlow:
          std::this_thread::sleep_for(std::chrono::duration<double>(fault.delay.value));
          break;
        case FaultKind::kDrop: dropped = true; break;
        case FaultKind::kFlipBit: flip_bit(operation, fault.bit); break;
      }
    }
    if (dropped) return nullptr;
    return inner_->start(std::move(operation), std::move(descriptor), timeout);
  }

 private:
  std::unique_ptr<detail::Transport> inner_;
  std::shared_ptr<FaultProgress> progress_;
};

}  // namespace

const char* to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::kCrash: return "crash";
    case FaultKind::kSlow: return "slow";
    case FaultKind::kDrop: return "drop";
    case FaultKind::kFlipBit: return "flipped bit";
  }
  return "?";
}

FaultPlan FaultPlan::random(std::uint64_t seed, FaultKind kind, std::int64_t world_size,
                            std::uint64_t num_calls, Seconds delay) {
  SX_CHECK(world_size > 0 && num_calls > 0, "a fault needs a rank and a call");
  const RandomStream random(seed, "test.faulty");
  return {
      {{.kind = kind,
        .rank = static_cast<std::int64_t>(random.u64(0) % static_cast<std::uint64_t>(world_size)),
        .call = random.u64(1) % num_calls,
        .delay = delay,
        .bit = random.u64(2)}}};
}

std::string FaultPlan::to_string() const {
  std::vector<std::string> texts;
  for (const Fault& f : faults) {
    texts.push_back(fmt::format("{} on rank {} at call {}{}", sx::to_string(f.kind), f.rank, f.call,
                                f.axis ? " on " + f.axis->to_string() : ""));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

void with_faults(Communicator& communicator, std::shared_ptr<const FaultPlan> plan) {
  auto progress = std::make_shared<FaultProgress>();
  progress->calls.resize(plan->faults.size());
  progress->plan = std::move(plan);
  communicator.wrap([&](std::unique_ptr<detail::Transport> inner) {
    return std::make_unique<FaultyTransport>(std::move(inner), progress);
  });
}

}  // namespace sx
