#include "sextant/dist/verified.h"

#include <fmt/format.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"
#include "sextant/dist/detail/descriptor.h"
#include "sextant/dist/detail/fold.h"
#include "sextant/dist/detail/transport.h"
#include "sextant/dist/dist_error.h"

namespace sx {
namespace {

using detail::Descriptor;
using detail::GroupInfo;

std::uint64_t checksum(const at::Tensor& tensor) {
  return xxh64({static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()});
}

std::byte* bytes_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

std::int64_t sum_before(const std::vector<std::int64_t>& counts, std::int64_t coord) {
  return std::accumulate(counts.begin(), counts.begin() + coord, std::int64_t{0});
}

class VerifiedTransport final : public detail::Transport {
 public:
  explicit VerifiedTransport(std::unique_ptr<detail::Transport> inner) : inner_(std::move(inner)) {}

  const GroupInfo& group() const override { return inner_->group(); }
  const Capabilities& capabilities() const override { return inner_->capabilities(); }
  void abort(const std::string& reason) override { inner_->abort(reason); }
  std::unique_ptr<detail::Transport> make_group(GroupInfo group) override {
    return std::make_unique<VerifiedTransport>(inner_->make_group(std::move(group)));
  }

  std::shared_ptr<detail::PendingOperation> start(Operation o, Descriptor descriptor,
                                                  Seconds timeout) override {
    const bool pair = o.op == Collective::kSend || o.op == Collective::kRecv;
    if (pair || o.op == Collective::kBarrier)
      return inner_->start(std::move(o), std::move(descriptor), timeout);
    make_result(o, exchange(o, descriptor, timeout));
    return nullptr;
  }

 private:
  static constexpr std::int64_t kLabel = 3;  ///< bytes, their complement, checksum

  /// The inputs of all ranks, each with what its owner says of it.
  std::vector<at::Tensor> exchange(const Operation& o, const Descriptor& d, Seconds timeout) {
    const auto degree = static_cast<std::size_t>(group().degree());
    // A broadcast has an input on its root only.
    const bool gives = o.op != Collective::kBroadcast || o.peer == group().coord;
    const at::Tensor in = gives ? (o.in.defined() ? o.in : o.out) : at::empty({0}, o.out.options());
    const at::Tensor label = at::empty({kLabel}, at::kLong);
    auto* l = label.mutable_data_ptr<std::int64_t>();
    l[0] = static_cast<std::int64_t>(in.nbytes());
    l[1] = ~l[0];
    l[2] = static_cast<std::int64_t>(checksum(in));
    const at::Tensor labels = at::empty({kLabel * group().degree()}, at::kLong);
    run(collective::all_gather(labels, label, std::vector<std::int64_t>(degree, kLabel)), d,
        timeout);

    std::vector<std::int64_t> sizes;
    for (std::size_t r = 0; r < degree; ++r) {
      const auto* of_rank = labels.const_data_ptr<std::int64_t>() + kLabel * r;
      if (of_rank[0] != ~of_rank[1]) fail(o, d, r, 0);
      sizes.push_back(of_rank[0]);
    }
    at::Tensor mine = at::empty({l[0]}, at::kByte);
    if (l[0] > 0) std::memcpy(bytes_of(mine), in.const_data_ptr(), in.nbytes());
    const at::Tensor bytes =
        at::empty({std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0})}, at::kByte);
    run(collective::all_gather(bytes, mine, sizes), d, timeout);

    std::vector<at::Tensor> inputs;
    for (std::size_t r = 0; r < degree; ++r) {
      const auto coord = static_cast<std::int64_t>(r);
      inputs.push_back(bytes.narrow(0, sum_before(sizes, coord), sizes[r]).clone());
      const std::int64_t said = labels.const_data_ptr<std::int64_t>()[kLabel * r + 2];
      if (static_cast<std::int64_t>(checksum(inputs.back())) != said) fail(o, d, r, sizes[r]);
    }
    return inputs;
  }

  [[noreturn]] void fail(const Operation& o, const Descriptor& d, std::size_t coord,
                         std::int64_t bytes) const {
    const std::int64_t rank = group().global_ranks[coord];
    throw DistError(DistFault::kCorrupted, group().axis, o.op, d.sequence, bytes, Seconds{}, rank,
                    fmt::format("what rank {} gave to {} came altered", rank, d.to_string()));
  }

  void run(Operation o, const Descriptor& d, Seconds timeout) {
    Descriptor inner = detail::describe(o, {.unit = d.to_string()});
    inner.sequence = calls_++;
    inner.history = d.history;
    if (const auto pending = inner_->start(std::move(o), std::move(inner), timeout))
      pending->wait();
  }

  void make_result(const Operation& o, const std::vector<at::Tensor>& inputs) const {
    const auto coord = group().coord;
    std::byte* out = bytes_of(o.out);
    const auto item = static_cast<std::int64_t>(o.out.element_size());
    switch (o.op) {
      case Collective::kAllGather:
        for (const at::Tensor& in : inputs) {
          if (in.nbytes() > 0) std::memcpy(out, in.const_data_ptr(), in.nbytes());
          out += in.nbytes();
        }
        return;
      case Collective::kBroadcast:
        if (o.out.nbytes() > 0)
          std::memcpy(out, inputs[static_cast<std::size_t>(o.peer)].const_data_ptr(),
                      o.out.nbytes());
        return;
      case Collective::kAllToAll: {
        // This rank's slice of every input; the counts that others send differ only by pair.
        for (std::size_t r = 0; r < inputs.size(); ++r) {
          const std::int64_t bytes = o.recv_counts[r] * item;
          const std::int64_t even =
              static_cast<std::int64_t>(inputs[r].nbytes()) / group().degree();
          SX_CHECK(bytes == even, "verification takes all_to_all with even counts");
          if (bytes > 0)
            std::memcpy(out, bytes_of(inputs[r]) + coord * even, static_cast<std::size_t>(bytes));
          out += bytes;
        }
        return;
      }
      case Collective::kAllReduce:
      case Collective::kReduceScatter: {
        const std::int64_t begin =
            o.op == Collective::kAllReduce ? 0 : sum_before(o.send_counts, coord) * item;
        std::vector<const std::byte*> parts;
        for (const at::Tensor& in : inputs) parts.push_back(bytes_of(in) + begin);
        if (o.out.numel() == 0) return;
        std::vector<std::byte*> outs{out};
        detail::fold(o.out.scalar_type(), o.reduce, parts, outs, o.out.numel());
        return;
      }
      case Collective::kSend:
      case Collective::kRecv:
      case Collective::kBarrier: return;
    }
  }

  std::unique_ptr<detail::Transport> inner_;
  std::uint64_t calls_ = 0;
};

}  // namespace

void with_verification(Communicator& communicator) {
  communicator.wrap([](std::unique_ptr<detail::Transport> inner) {
    return std::make_unique<VerifiedTransport>(std::move(inner));
  });
}

}  // namespace sx
