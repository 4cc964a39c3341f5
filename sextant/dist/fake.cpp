// Ranks that are played: a call is a copy of what the rank has itself, or nothing.
#include "sextant/dist/fake.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/dist/detail/descriptor.h"
#include "sextant/dist/detail/transport.h"
#include "sextant/dist/dist_error.h"

namespace sx {
namespace {

/// Ends all communicators of the played rank.
struct FakeAbort {
  std::atomic<bool> aborted{false};
  std::mutex mutex;
  std::string reason;
};

class FakeTransport final : public detail::Transport {
 public:
  FakeTransport(detail::GroupInfo group, FakeOptions::Fill fill, std::shared_ptr<FakeAbort> abort)
      : group_(std::move(group)), fill_(fill), abort_(std::move(abort)) {
    capabilities_.transport = "fake";
    capabilities_.cuda = true;
    capabilities_.overlap = true;
  }

  const detail::GroupInfo& group() const override { return group_; }
  const Capabilities& capabilities() const override { return capabilities_; }

  std::shared_ptr<detail::PendingOperation> start(Operation o, detail::Descriptor descriptor,
                                                  Seconds) override {
    if (abort_->aborted.load(std::memory_order_acquire)) {
      const std::lock_guard lock(abort_->mutex);
      throw DistError(DistFault::kAborted, group_.axis, o.op, descriptor.sequence,
                      descriptor.bytes(), Seconds{},
                      group_.global_ranks[static_cast<std::size_t>(group_.coord)], abort_->reason);
    }
    if (fill_ == FakeOptions::Fill::kOwn) fill(o);
    return nullptr;
  }

  std::unique_ptr<detail::Transport> make_group(detail::GroupInfo group) override {
    if (group.degree() == 1) return detail::make_solo_transport(std::move(group));
    return std::make_unique<FakeTransport>(std::move(group), fill_, abort_);
  }

  void abort(const std::string& reason) override {
    const std::lock_guard lock(abort_->mutex);
    if (abort_->aborted.load(std::memory_order_relaxed)) return;
    abort_->reason = reason;
    abort_->aborted.store(true, std::memory_order_release);
  }

 private:
  void fill(const Operation& o) const {
    const auto coord = static_cast<std::size_t>(group_.coord);
    const auto begin = [&](const std::vector<std::int64_t>& counts, std::size_t c) {
      return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(c),
                             std::int64_t{0});
    };
    switch (o.op) {
      case Collective::kReduceScatter:
        o.out.view(-1).copy_(o.in.view(-1).narrow(0, begin(o.send_counts, coord), o.out.numel()));
        break;
      case Collective::kAllGather: {
        const at::Tensor all = o.out.view(-1);
        const at::Tensor own = o.in.view(-1);
        for (std::size_t c = 0; c < o.recv_counts.size(); ++c) {
          const std::int64_t n = std::min(o.recv_counts[c], own.numel());
          const at::Tensor slice = all.narrow(0, begin(o.recv_counts, c), o.recv_counts[c]);
          if (n > 0 && slice.const_data_ptr() != own.const_data_ptr()) {
            slice.narrow(0, 0, n).copy_(own.narrow(0, 0, n));
          }
          slice.narrow(0, n, o.recv_counts[c] - n).zero_();
        }
        break;
      }
      case Collective::kAllToAll: {
        o.out.zero_();
        const std::int64_t n = std::min(o.recv_counts[coord], o.send_counts[coord]);
        o.out.view(-1)
            .narrow(0, begin(o.recv_counts, coord), n)
            .copy_(o.in.view(-1).narrow(0, begin(o.send_counts, coord), n));
        break;
      }
      case Collective::kRecv: o.out.zero_(); break;
      case Collective::kBroadcast:
      case Collective::kAllReduce:
      case Collective::kSend:
      case Collective::kBarrier: break;
    }
  }

  detail::GroupInfo group_;
  FakeOptions::Fill fill_;
  std::shared_ptr<FakeAbort> abort_;
  Capabilities capabilities_;
};

}  // namespace

Communicator fake_world(std::int64_t world_size, std::int64_t rank, FakeOptions options) {
  SX_CHECK(world_size >= 1 && rank >= 0 && rank < world_size, "rank {} of {} ranks", rank,
           world_size);
  detail::GroupInfo group{.coord = rank, .axis = options.axis, .purpose = options.purpose};
  group.global_ranks.resize(static_cast<std::size_t>(world_size));
  std::iota(group.global_ranks.begin(), group.global_ranks.end(), std::int64_t{0});
  auto session = std::make_shared<CommSession>(rank, options.comm);
  if (world_size == 1) {
    return Communicator(detail::make_solo_transport(std::move(group)), std::move(session));
  }
  return Communicator(std::make_unique<FakeTransport>(std::move(group), options.fill,
                                                      std::make_shared<FakeAbort>()),
                      std::move(session));
}

}  // namespace sx
