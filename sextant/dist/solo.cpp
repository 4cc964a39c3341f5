// The communicator of one rank: every collective is a copy or nothing. Degree 1 is this object, not
// an `if`.
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "sextant/base/check.h"
#include "sextant/dist/detail/descriptor.h"
#include "sextant/dist/detail/transport.h"
#include "sextant/dist/dist_error.h"

namespace sx::detail {
namespace {

class SoloTransport final : public Transport {
 public:
  explicit SoloTransport(GroupInfo group) : group_(std::move(group)) {
    capabilities_.transport = "solo";
  }

  const GroupInfo& group() const override { return group_; }
  const Capabilities& capabilities() const override { return capabilities_; }

  std::shared_ptr<PendingOperation> start(Operation o, Descriptor descriptor, Seconds) override {
    const std::lock_guard lock(mutex_);
    if (aborted_) {
      throw DistError(DistFault::kAborted, group_.axis, o.op, descriptor.sequence, 0, Seconds{},
                      group_.global_ranks[0], reason_);
    }
    switch (o.op) {
      case Collective::kReduceScatter:
      case Collective::kAllGather:
      case Collective::kAllToAll: copy(o.out, o.in); break;
      case Collective::kSend: sent_.push_back({o.tag, o.in.clone()}); break;
      case Collective::kRecv: receive(o); break;
      case Collective::kBroadcast:
      case Collective::kAllReduce:
      case Collective::kBarrier: break;
    }
    return nullptr;
  }

  std::unique_ptr<Transport> make_group(GroupInfo group) override {
    return make_solo_transport(std::move(group));
  }

  void abort(const std::string& reason) override {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    reason_ = reason;
  }

 private:
  static void copy(const at::Tensor& to, const at::Tensor& from) {
    if (to.nbytes() != 0 && to.const_data_ptr() != from.const_data_ptr()) {
      std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
    }
  }

  void receive(const Operation& o) {
    for (auto it = sent_.begin(); it != sent_.end(); ++it) {
      if (it->first != o.tag) continue;
      SX_CHECK(
          it->second.scalar_type() == o.out.scalar_type() && it->second.numel() == o.out.numel(),
          "recv: {} elements of {} wanted, {} of {} were sent", o.out.numel(),
          toString(o.out.scalar_type()), it->second.numel(), toString(it->second.scalar_type()));
      copy(o.out, it->second);
      sent_.erase(it);
      return;
    }
    SX_CHECK(false, "recv: a rank alone receives only what it has sent (tag {})", o.tag);
  }

  GroupInfo group_;
  Capabilities capabilities_;
  std::deque<std::pair<std::int64_t, at::Tensor>> sent_;
  std::mutex mutex_;  // abort may come from another thread
  bool aborted_ = false;
  std::string reason_;
};

}  // namespace

std::unique_ptr<Transport> make_solo_transport(GroupInfo group) {
  return std::make_unique<SoloTransport>(std::move(group));
}

}  // namespace sx::detail
