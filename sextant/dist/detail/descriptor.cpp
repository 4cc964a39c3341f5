#include "sextant/dist/detail/descriptor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sextant/base/hash.h"

namespace sx::detail {
namespace {

bool is_reduction(Collective op) {
  return op == Collective::kAllReduce || op == Collective::kReduceScatter;
}

bool all_equal(const std::vector<std::int64_t>& counts) {
  for (const std::int64_t count : counts) {
    if (count != counts.front()) return false;
  }
  return true;
}

std::uint64_t hash_counts(const std::vector<std::int64_t>& counts, std::uint64_t seed) {
  if (counts.empty()) return seed;
  return xxh64({reinterpret_cast<const char*>(counts.data()), counts.size() * sizeof(counts[0])},
               seed);
}

}  // namespace

std::string Descriptor::to_string() const {
  std::string text = sx::to_string(op);
  if (is_reduction(op)) text += fmt::format(" {}", sx::to_string(reduce));
  if (op != Collective::kBarrier) text += fmt::format(" {} x {}", c10::toString(dtype), numel);
  if (op == Collective::kBroadcast) text += fmt::format(", root {}", peer);
  if (op == Collective::kSend) text += fmt::format(" to {}, tag {}", peer, tag);
  if (op == Collective::kRecv) text += fmt::format(" from {}, tag {}", peer, tag);
  if (!all_equal(send_counts))
    text += fmt::format(", send counts [{}]", fmt::join(send_counts, " "));
  if (!all_equal(recv_counts))
    text += fmt::format(", receive counts [{}]", fmt::join(recv_counts, " "));
  if (!unit.empty()) text += fmt::format(", unit \"{}\"", unit);
  return text + fmt::format(", call {}", sequence);
}

std::string Descriptor::to_string_noexcept() const noexcept {
  try {
    return to_string();
  } catch (...) {
    return sx::to_string(op);  // short enough to need no memory
  }
}

std::uint64_t Descriptor::next_history(Purpose purpose) const {
  // Counts of an all_to_all differ by rank and stay outside, as does the own part of an uneven
  // all_gather.
  const bool own_size = op == Collective::kAllToAll || !recv_counts.empty();
  const std::uint64_t head[3] = {
      static_cast<std::uint64_t>(op) | static_cast<std::uint64_t>(reduce) << 8 |
          static_cast<std::uint64_t>(dtype) << 16 | static_cast<std::uint64_t>(purpose) << 24,
      own_size ? 0 : static_cast<std::uint64_t>(numel), static_cast<std::uint64_t>(peer)};
  std::uint64_t hash = xxh64({reinterpret_cast<const char*>(head), sizeof(head)}, history);
  if (op != Collective::kAllToAll) {
    hash = hash_counts(send_counts, hash);
    hash = hash_counts(recv_counts, hash);
  }
  return unit.empty() ? hash : xxh64(unit, hash);
}

std::int64_t Descriptor::bytes() const {
  return op == Collective::kBarrier ? 0
                                    : numel * static_cast<std::int64_t>(c10::elementSize(dtype));
}

Descriptor describe(const Operation& o, const CallOptions& options) {
  const at::Tensor& tensor = o.in.defined() ? o.in : o.out;
  Descriptor d;
  d.op = o.op;
  d.reduce = o.reduce;
  if (tensor.defined()) {
    d.dtype = tensor.scalar_type();
    d.numel = tensor.numel();
  }
  d.peer = o.peer;
  d.tag = o.tag;
  const bool always = o.op == Collective::kAllToAll;
  if (always || !all_equal(o.send_counts)) d.send_counts = o.send_counts;
  if (always || !all_equal(o.recv_counts)) d.recv_counts = o.recv_counts;
  d.unit = options.unit;
  return d;
}

bool agree(const Descriptor& a, std::int64_t coord_a, const Descriptor& b, std::int64_t coord_b) {
  if (a.op != b.op || a.unit != b.unit || a.history != b.history) return false;
  if (a.op == Collective::kBarrier) return true;
  if (a.dtype != b.dtype || (is_reduction(a.op) && a.reduce != b.reduce)) return false;
  switch (a.op) {
    case Collective::kBroadcast: return a.peer == b.peer && a.numel == b.numel;
    case Collective::kAllReduce: return a.numel == b.numel;
    case Collective::kReduceScatter: return a.numel == b.numel && a.send_counts == b.send_counts;
    case Collective::kAllGather:
      return a.recv_counts == b.recv_counts && (!a.recv_counts.empty() || a.numel == b.numel);
    case Collective::kAllToAll: {
      const auto ia = static_cast<std::size_t>(coord_a);
      const auto ib = static_cast<std::size_t>(coord_b);
      return a.send_counts[ib] == b.recv_counts[ia] && a.recv_counts[ib] == b.send_counts[ia];
    }
    default: return true;
  }
}

}  // namespace sx::detail
