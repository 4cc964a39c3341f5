// What each collective sends, and what it does with what comes: one state machine over messages,
// the same on every wire.
#include "sextant/dist/detail/process_operation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "sextant/base/hash.h"
#include "sextant/dist/detail/fold.h"

namespace sx::detail {
namespace {

/// Up to this size every rank gets the whole vector and folds it itself: one exchange instead of
/// two.
constexpr std::int64_t kWholeBytes = 16 * 1024;
/// Up to this size the root of a broadcast sends to everybody.
constexpr std::int64_t kDirectBytes = 64 * 1024;

std::int64_t begin_of(const std::vector<std::int64_t>& counts, std::int64_t coord) {
  return std::accumulate(counts.begin(), counts.begin() + coord, std::int64_t{0});
}

bool is_p2p(Collective op) { return op == Collective::kSend || op == Collective::kRecv; }

/// What must agree on all ranks, as one number. Counts of an all_to_all differ by pair; the bytes
/// of the messages show them. A send matches its receive by dtype, length and unit.
std::uint64_t check_of(const Descriptor& d, Purpose purpose) {
  if (is_p2p(d.op)) {
    return xxh64(fmt::format("{} {} {}", static_cast<int>(d.dtype), d.numel, d.unit));
  }
  return d.next_history(purpose);
}

}  // namespace

ProcessOperation::ProcessOperation(std::shared_ptr<ProcessMember> member, Operation operation,
                                   Descriptor descriptor, Seconds timeout, std::uint64_t p2p_place)
    : member_(std::move(member)),
      operation_(std::move(operation)),
      descriptor_(std::move(descriptor)),
      timeout_(timeout),
      check_(check_of(descriptor_, member_->info.purpose)),
      p2p_place_(p2p_place),
      missing_(static_cast<std::size_t>(member_->info.degree()), false),
      unsent_(static_cast<std::size_t>(member_->info.degree()), 0),
      buffers_(static_cast<std::size_t>(member_->info.degree())) {}

std::int64_t ProcessOperation::element_bytes() const {
  return static_cast<std::int64_t>(c10::elementSize(descriptor_.dtype));
}

std::byte* ProcessOperation::out(std::int64_t element) const {
  return static_cast<std::byte*>(operation_.out.mutable_data_ptr()) + element * element_bytes();
}

const std::byte* ProcessOperation::in(std::int64_t element) const {
  return static_cast<const std::byte*>(operation_.in.const_data_ptr()) + element * element_bytes();
}

std::int64_t ProcessOperation::coord_of(std::int64_t global_rank) const {
  const auto& ranks = group().global_ranks;
  return std::lower_bound(ranks.begin(), ranks.end(), global_rank) - ranks.begin();
}

std::vector<std::int64_t> ProcessOperation::missing_ranks() const {
  std::vector<std::int64_t> ranks;
  for (std::size_t coord = 0; coord < missing_.size(); ++coord) {
    if (missing_[coord]) ranks.push_back(group().global_ranks[coord]);
  }
  return ranks;
}

std::vector<std::int64_t> ProcessOperation::unsent_ranks() const {
  std::vector<std::int64_t> ranks;
  for (std::size_t coord = 0; coord < unsent_.size(); ++coord) {
    if (unsent_[coord] > 0) ranks.push_back(group().global_ranks[coord]);
  }
  return ranks;
}

bool ProcessOperation::is_cut() const {
  if (operation_.op == Collective::kAllReduce) return descriptor_.bytes() > kWholeBytes;
  return operation_.op == Collective::kBroadcast && descriptor_.bytes() > kDirectBytes &&
         group().degree() > 2;
}

ProcessOperation::Slice ProcessOperation::cut(std::int64_t coord) const {
  const std::int64_t each = (descriptor_.numel + group().degree() - 1) / group().degree();
  const std::int64_t begin = std::min(descriptor_.numel, coord * each);
  return {begin, std::min(descriptor_.numel - begin, each)};
}

void ProcessOperation::begin() { begin_part(); }

void ProcessOperation::begin_part() {
  beginning_ = true;
  const std::int64_t degree = group().degree();
  const std::int64_t own = group().coord;
  const std::int64_t size = element_bytes();
  switch (operation_.op) {
    case Collective::kSend: begin_send(); break;
    case Collective::kRecv: begin_recv(); break;
    case Collective::kAllReduce: begin_all_reduce(); break;
    case Collective::kBroadcast: begin_broadcast(); break;
    case Collective::kBarrier:
      for (std::int64_t c = 0; c < degree; ++c) exchange(c, nullptr, 0, nullptr, 0);
      break;
    case Collective::kReduceScatter: {
      const auto& counts = operation_.send_counts;
      const std::int64_t bytes = counts[static_cast<std::size_t>(own)] * size;
      for (std::int64_t c = 0; c < degree; ++c) {
        exchange(c, in(begin_of(counts, c)), counts[static_cast<std::size_t>(c)] * size, nullptr,
                 bytes);
      }
      break;
    }
    case Collective::kAllGather: {
      const auto& counts = operation_.recv_counts;
      const std::int64_t bytes = counts[static_cast<std::size_t>(own)] * size;
      std::byte* own_place = out(begin_of(counts, own));
      if (bytes > 0 && own_place != in(0)) {
        std::memcpy(own_place, in(0), static_cast<std::size_t>(bytes));
      }
      for (std::int64_t c = 0; c < degree; ++c) {
        exchange(c, in(0), bytes, out(begin_of(counts, c)),
                 counts[static_cast<std::size_t>(c)] * size);
      }
      break;
    }
    case Collective::kAllToAll: {
      const auto& sends = operation_.send_counts;
      const auto& recvs = operation_.recv_counts;
      const auto own_bytes = static_cast<std::size_t>(sends[static_cast<std::size_t>(own)] * size);
      if (own_bytes > 0) {
        std::memcpy(out(begin_of(recvs, own)), in(begin_of(sends, own)), own_bytes);
      }
      for (std::int64_t c = 0; c < degree; ++c) {
        exchange(c, in(begin_of(sends, c)), sends[static_cast<std::size_t>(c)] * size,
                 out(begin_of(recvs, c)), recvs[static_cast<std::size_t>(c)] * size);
      }
      break;
    }
  }
  beginning_ = false;
  advance();
}

void ProcessOperation::begin_all_reduce() {
  const std::int64_t degree = group().degree();
  const std::int64_t size = element_bytes();
  const Slice own = cut(group().coord);
  if (!is_cut()) {
    // The result goes where the input lies, maybe before the input has left.
    const std::int64_t bytes = descriptor_.bytes();
    staged_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes) + 1);
    if (bytes > 0) std::memcpy(staged_.get(), in(0), static_cast<std::size_t>(bytes));
    for (std::int64_t c = 0; c < degree; ++c) exchange(c, staged_.get(), bytes, nullptr, bytes);
    return;
  }
  for (std::int64_t c = 0; c < degree; ++c) {
    const Slice slice = cut(c);
    if (part_ == 0) {
      exchange(c, in(slice.begin), slice.count * size, nullptr, own.count * size);
    } else {
      // Coord c has our part of its slice, or it would not send: the place is free.
      exchange(c, out(own.begin), own.count * size, out(slice.begin), slice.count * size);
    }
  }
}

void ProcessOperation::begin_broadcast() {
  const std::int64_t size = element_bytes();
  const std::int64_t root = operation_.peer;
  const bool is_root = group().coord == root;
  const Slice own = cut(group().coord);
  for (std::int64_t c = 0; c < group().degree(); ++c) {
    const Slice slice = cut(c);
    if (!is_cut()) {
      exchange(c, out(0), is_root ? descriptor_.bytes() : 0, out(0),
               c == root ? descriptor_.bytes() : 0);
    } else if (part_ == 0) {
      exchange(c, out(slice.begin), is_root ? slice.count * size : 0, out(own.begin),
               c == root ? own.count * size : 0);
    } else {
      // The root has everything and needs no slice back.
      exchange(c, out(own.begin), c == root ? 0 : own.count * size, out(slice.begin),
               is_root ? 0 : slice.count * size);
    }
  }
}

void ProcessOperation::exchange(std::int64_t coord, const std::byte* data, std::int64_t send_bytes,
                                std::byte* to, std::int64_t recv_bytes) {
  if (coord == group().coord) return;
  post(coord, MessageKind::kCollective, data, send_bytes);
  missing_[static_cast<std::size_t>(coord)] = true;
  ++num_missing_;
  const PieceKey key{.channel = member_->channel,
                     .place = descriptor_.sequence,
                     .from = group().global_ranks[static_cast<std::size_t>(coord)],
                     .kind = MessageKind::kCollective,
                     .part = part_};
  member_->world.expect(shared_from_this(), key, to, recv_bytes);
}

void ProcessOperation::post(std::int64_t coord, MessageKind kind, const std::byte* data,
                            std::int64_t bytes) {
  auto message = std::make_shared<OutMessage>();
  const bool p2p = kind == MessageKind::kP2p;
  message->head = {.channel = member_->channel,
                   .place = p2p ? p2p_place_ : descriptor_.sequence,
                   .check = check_,
                   .bytes = bytes,
                   .tag = p2p ? operation_.tag : 0,
                   .kind = kind,
                   .part = part_};
  if (part_ == 0) {
    if (text_.empty()) text_ = descriptor_.to_string().substr(0, kMaxTextBytes);
    message->text = text_;
  }
  message->data = data;
  message->owner = shared_from_this();
  ++num_unsent_;
  ++unsent_[static_cast<std::size_t>(coord)];
  message->sent = [this, coord] {
    --num_unsent_;
    --unsent_[static_cast<std::size_t>(coord)];
    advance();
  };
  member_->world.send(group().global_ranks[static_cast<std::size_t>(coord)], std::move(message));
}

void ProcessOperation::begin_send() {
  if (operation_.peer != group().coord) {
    post(operation_.peer, MessageKind::kP2p, in(0), descriptor_.bytes());
    return;
  }
  // To itself: as if it came over the wire.
  const MessageHead head{.channel = member_->channel,
                         .place = p2p_place_,
                         .check = check_,
                         .bytes = descriptor_.bytes(),
                         .tag = operation_.tag,
                         .kind = MessageKind::kP2p};
  const std::int64_t from = group().global_ranks[static_cast<std::size_t>(group().coord)];
  std::byte* to = member_->world.on_head(from, head, descriptor_.to_string());
  if (head.bytes > 0) std::memcpy(to, in(0), static_cast<std::size_t>(head.bytes));
  member_->world.on_message(from, head);
}

void ProcessOperation::begin_recv() {
  missing_[static_cast<std::size_t>(operation_.peer)] = true;
  ++num_missing_;
  const PieceKey key{.channel = member_->channel,
                     .place = p2p_place_,
                     .tag = operation_.tag,
                     .from = group().global_ranks[static_cast<std::size_t>(operation_.peer)],
                     .kind = MessageKind::kP2p,
                     .part = 0};
  member_->world.expect(shared_from_this(), key, out(0), descriptor_.bytes());
}

void ProcessOperation::piece_arrived(std::int64_t from, Buffer buffer) {
  const auto coord = static_cast<std::size_t>(coord_of(from));
  buffers_[coord] = std::move(buffer);
  missing_[coord] = false;
  --num_missing_;
  advance();
}

void ProcessOperation::advance() {
  if (beginning_ || done() || num_missing_ > 0 || num_unsent_ > 0) return;
  end_part();
}

void ProcessOperation::end_part() {
  const Slice own = cut(group().coord);
  switch (operation_.op) {
    case Collective::kReduceScatter: {
      const auto& counts = operation_.send_counts;
      const std::int64_t begin = begin_of(counts, group().coord);
      const std::int64_t count = counts[static_cast<std::size_t>(group().coord)];
      fold_slice({begin, count}, in(begin), out(0));
      break;
    }
    case Collective::kAllReduce:
      if (!is_cut()) {
        fold_slice({0, descriptor_.numel}, staged_.get(), out(0));
      } else if (part_ == 0) {
        fold_slice(own, in(own.begin), out(own.begin));
        ++part_;
        return begin_part();
      }
      break;
    case Collective::kBroadcast:
      if (is_cut() && part_ == 0) {
        ++part_;
        return begin_part();
      }
      break;
    default: break;
  }
  // The buffers are of no more use; tensors go with the handle's owner.
  buffers_.clear();
  staged_.reset();
  operation_.in = at::Tensor();
  operation_.out = at::Tensor();
  member_->world.completed(*this);
}

void ProcessOperation::fold_slice(const Slice& own, const std::byte* own_data, std::byte* to) {
  if (own.count > 0) {
    std::vector<const std::byte*> inputs;
    for (std::size_t c = 0; c < buffers_.size(); ++c) {
      const bool is_own = static_cast<std::int64_t>(c) == group().coord;
      inputs.push_back(is_own ? own_data : buffers_[c].get());
    }
    std::byte* const outs[1] = {to};
    fold(descriptor_.dtype, operation_.reduce, inputs, outs, own.count);
  }
  for (Buffer& buffer : buffers_) buffer.reset();
}

}  // namespace sx::detail
