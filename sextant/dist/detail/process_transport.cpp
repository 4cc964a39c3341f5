// A group of processes as its rank sees it: hands its calls to the world.
#include <utility>

#include "sextant/dist/detail/process_operation.h"

namespace sx::detail {
namespace {

class ProcessTransport final : public Transport {
 public:
  ProcessTransport(ProcessWorld& world, GroupInfo info, std::uint64_t channel)
      : member_(std::make_shared<ProcessMember>(world, std::move(info), channel)) {
    capabilities_.transport = world.options().transport;
    capabilities_.overlap = true;
  }

  const GroupInfo& group() const override { return member_->info; }
  const Capabilities& capabilities() const override { return capabilities_; }

  std::shared_ptr<PendingOperation> start(Operation operation, Descriptor descriptor,
                                          Seconds timeout) override {
    ProcessMember& member = *member_;
    member.world.before_start(member.info, descriptor);
    std::uint64_t place = 0;
    if (operation.op == Collective::kSend) place = member.sends[{operation.peer, operation.tag}]++;
    if (operation.op == Collective::kRecv) place = member.recvs[{operation.peer, operation.tag}]++;
    auto started = std::make_shared<ProcessOperation>(member_, std::move(operation),
                                                      std::move(descriptor), timeout, place);
    member.world.start(started);
    return started;
  }

  std::unique_ptr<Transport> make_group(GroupInfo info) override {
    return member_->world.make_transport(std::move(info));
  }

  void abort(const std::string& reason) override {
    ProcessWorld& world = member_->world;
    world.abort({.fault = DistFault::kAborted,
                 .origin_rank = world.options().global_rank,
                 .message = reason});
  }

 private:
  std::shared_ptr<ProcessMember> member_;
  Capabilities capabilities_;
};

}  // namespace

std::unique_ptr<Transport> make_process_transport(ProcessWorld& world, GroupInfo info,
                                                  std::uint64_t channel) {
  return std::make_unique<ProcessTransport>(world, std::move(info), channel);
}

}  // namespace sx::detail
