#include "sextant/dist/detail/process_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>

#include "sextant/base/check.h"
#include "sextant/base/hash.h"
#include "sextant/dist/detail/process_operation.h"
#include "sextant/tensor/rank_thread.h"

namespace sx::detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kIdle{20'000};

std::chrono::duration<double> span(Seconds s) { return std::chrono::duration<double>(s.value); }

}  // namespace

std::size_t PieceKeyHash::operator()(const PieceKey& key) const {
  const std::uint64_t words[] = {key.channel,
                                 key.place,
                                 static_cast<std::uint64_t>(key.tag),
                                 static_cast<std::uint64_t>(key.from),
                                 static_cast<std::uint64_t>(key.kind),
                                 key.part};
  std::uint64_t h = 0x9e3779b97f4a7c15u;
  for (const std::uint64_t word : words) {
    h = (h ^ word) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  }
  return static_cast<std::size_t>(h);
}

ProcessWorld::ProcessWorld(const ProcessWorldOptions& options,
                           const std::function<std::unique_ptr<Wire>()>& make_wire)
    : options_(options) {
  std::exception_ptr error;
  thread_ = std::thread([&, make_wire] { run(make_wire, error); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return running_ || ended_; });
  if (running_) return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(error);
}

ProcessWorld::~ProcessWorld() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    if (ending_ != Ending::kFinish || !ended_) ending_ = Ending::kLetGo;
  }
  wire_->wake();
  thread_.join();
  // Peers may still write to or read from memory of calls that were under way, where the wire maps
  // it; the process ends soon.
  if (aborted()) static_cast<void>(new auto(std::move(open_)));
}

void ProcessWorld::run(const std::function<std::unique_ptr<Wire>()>& make_wire,
                       std::exception_ptr& error) {
  try {
    prepare_rank_thread({.intra_op_threads = 1, .flush_denormals = options_.flush_denormals});
    std::unique_ptr<Wire> wire = make_wire();
    const std::lock_guard lock(mutex_);
    wire_ = std::move(wire);
    running_ = true;
  } catch (...) {
    error = std::current_exception();
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  {
    const std::lock_guard lock(mutex_);
    if (!running_) return;
  }
  loop(*wire_);
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

void ProcessWorld::loop(Wire& wire) {
  std::unique_lock lock(mutex_);
  for (;;) {
    bool moved = take_started();
    if (fault_ && !told_) {
      told_ = true;
      tell_all({.place = static_cast<std::uint64_t>(fault_->fault),
                .tag = static_cast<std::int64_t>(fault_->exit),
                .kind = MessageKind::kAbort,
                .origin = static_cast<std::uint32_t>(fault_->origin_rank)},
               fault_->message.substr(0, kMaxTextBytes));
    }
    note_ending();
    moved = wire.progress(*this) || moved;
    if (ending_ == Ending::kLetGo) return;
    if (said_goodbye_ && others_are_done() && wire.flushed()) {
      if (!fault_) wire.close();
      return;
    }
    if (moved) {
      lock.unlock();  // others look in, too
      lock.lock();
      continue;
    }
    const bool busy = !open_.empty() || !wire.flushed() || ending_ != Ending::kNo;
    lock.unlock();
    wire.wait(busy, kIdle);
    lock.lock();
  }
}

bool ProcessWorld::take_started() {
  std::vector<std::shared_ptr<ProcessOperation>> taken;
  {
    const std::lock_guard lock(started_mutex_);
    taken.swap(started_);
  }
  for (auto& operation : taken) {
    open_.push_back(operation);
    operation->begin();
  }
  if (!taken.empty()) check_nobody_left();
  return !taken.empty();
}

void ProcessWorld::tell_all(const MessageHead& head, const std::string& text) {
  for (std::int64_t rank = 0; rank < options_.world_size; ++rank) {
    if (rank == options_.global_rank || lost_.contains(rank)) continue;
    auto message = std::make_shared<OutMessage>();
    message->head = head;
    message->text = text;
    wire_->send(rank, std::move(message));
  }
}

void ProcessWorld::note_ending() {
  if ((ending_ != Ending::kFinish && ending_ != Ending::kLinger) || said_goodbye_) return;
  said_goodbye_ = true;
  tell_all({.kind = MessageKind::kGoodbye}, "");
}

bool ProcessWorld::others_are_done() const {
  for (std::int64_t rank = 0; rank < options_.world_size; ++rank) {
    if (rank != options_.global_rank && !left_.contains(rank) && !lost_.contains(rank))
      return false;
  }
  return true;
}

std::unique_ptr<Transport> make_process_transport(ProcessWorld& world, GroupInfo info,
                                                  std::uint64_t channel);

std::unique_ptr<Transport> ProcessWorld::make_transport(GroupInfo group) {
  if (group.degree() == 1) return make_solo_transport(std::move(group));
  const std::uint64_t instance = instances_[{group.global_ranks, group.purpose}]++;
  const std::uint64_t channel = xxh64(fmt::format("{} {} {}", fmt::join(group.global_ranks, ","),
                                                  static_cast<int>(group.purpose), instance)) |
                                1;
  return make_process_transport(*this, std::move(group), channel);
}

void ProcessWorld::before_start(const GroupInfo& group, const Descriptor& descriptor) {
  SX_CHECK(dropped_.empty(), "a handle went without wait(): {}", dropped_);
  if (aborted()) throw error_of(group, descriptor, Seconds{});
}

void ProcessWorld::start(std::shared_ptr<ProcessOperation> operation) {
  {
    const std::lock_guard lock(started_mutex_);
    started_.push_back(std::move(operation));
  }
  wire_->wake();
}

void ProcessWorld::wait_for(ProcessOperation& operation) {
  const auto begin = Clock::now();
  const auto limit = span(operation.timeout());
  for (;;) {
    const std::uint32_t seen = parker_.epoch();
    if (operation.done()) return;
    const std::chrono::duration<double> waited = Clock::now() - begin;
    if (aborted()) {
      throw error_of(operation.group(), operation.descriptor(), Seconds{waited.count()});
    }
    if (waited >= limit) {
      std::vector<std::int64_t> missing, unsent;
      {
        const std::lock_guard lock(mutex_);
        missing = operation.missing_ranks();
        unsent = operation.unsent_ranks();
      }
      if (operation.done()) return;
      const bool joined = missing.empty();
      fail(operation, DistFault::kTimeout,
           fmt::format("rank {} waited {:.3g} s for rank {} to {}", options_.global_rank,
                       waited.count(), fmt::join(joined ? unsent : missing, ", "),
                       joined ? "take its data" : "join"),
           Seconds{waited.count()});
    }
    parker_.park(seen, std::chrono::duration_cast<std::chrono::nanoseconds>(limit - waited));
  }
}

void ProcessWorld::note_drop(const ProcessOperation& operation) noexcept {
#ifndef NDEBUG
  if (std::uncaught_exceptions() > 0 || aborted()) return;
  dropped_ = operation.descriptor().to_string_noexcept();
#else
  (void)operation;
#endif
}

void ProcessWorld::finish() {
  SX_CHECK(dropped_.empty(), "a handle went without wait(): {}", dropped_);
  const auto in_flight = [&] {
    std::vector<std::shared_ptr<ProcessOperation>> all;
    {
      const std::lock_guard lock(started_mutex_);
      all = started_;
    }
    const std::lock_guard lock(mutex_);
    all.insert(all.end(), open_.begin(), open_.end());
    return all;
  };
  for (auto all = in_flight(); !all.empty(); all = in_flight()) wait_for(*all.front());
  std::unique_lock lock(mutex_);
  ending_ = Ending::kFinish;
  wire_->wake();
  const bool ended =
      changed_.wait_for(lock, span(options_.timeout), [&] { return ended_ || fault_; });
  if (ended && !fault_) {
    lock.unlock();
    thread_.join();
    return;
  }
  std::vector<std::int64_t> waiting;
  for (std::int64_t rank = 0; rank < options_.world_size; ++rank) {
    if (rank != options_.global_rank && !left_.contains(rank)) waiting.push_back(rank);
  }
  if (!fault_) {
    abort_locked({.fault = DistFault::kTimeout,
                  .origin_rank = options_.global_rank,
                  .message = fmt::format("rank {} is done and waited {:.3g} s for rank {} to be",
                                         options_.global_rank, options_.timeout.value,
                                         fmt::join(waiting, ", "))});
  }
  lock.unlock();
  throw error_of({.global_ranks = {options_.global_rank}, .axis = AxisSet::world()}, {}, Seconds{});
}

void ProcessWorld::linger(Seconds limit) {
  std::unique_lock lock(mutex_);
  if (!running_ || ended_) return;
  ending_ = Ending::kLinger;
  wire_->wake();
  changed_.wait_for(lock, span(limit), [&] { return ended_; });
}

WorldFault ProcessWorld::abort(const WorldFault& fault) {
  {
    const std::lock_guard lock(mutex_);
    abort_locked(fault);
  }
  wire_->wake();
  const std::lock_guard lock(mutex_);
  return *fault_;
}

void ProcessWorld::abort_locked(const WorldFault& fault) {
  if (!fault_) {
    fault_ = fault;
    aborted_.store(true, std::memory_order_release);
  }
  parker_.notify();
  changed_.notify_all();
}

std::optional<WorldFault> ProcessWorld::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

bool ProcessWorld::has_left(std::int64_t rank) const {
  const std::lock_guard lock(mutex_);
  return left_.contains(rank);
}

void ProcessWorld::lose(std::int64_t rank, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    on_lost(rank, why);
  }
  wire_->wake();
}

DistError ProcessWorld::error_of(const GroupInfo& group, const Descriptor& descriptor,
                                 Seconds waited) const {
  const WorldFault fault = this->fault().value_or(WorldFault{});
  const std::string message = fault.fault == DistFault::kAborted
                                  ? fmt::format("rank {}: {}", fault.origin_rank, fault.message)
                                  : fault.message;
  return DistError(fault.fault, group.axis, descriptor.op, descriptor.sequence, descriptor.bytes(),
                   waited, fault.origin_rank, message);
}

void ProcessWorld::fail(const ProcessOperation& operation, DistFault fault,
                        const std::string& message, Seconds waited) {
  abort({.fault = fault,
         .origin_rank = options_.global_rank,
         .message = fmt::format("{} on {} ({}): {}", operation.descriptor().to_string(),
                                operation.group().axis.to_string(),
                                to_string(operation.group().purpose), message)});
  throw error_of(operation.group(), operation.descriptor(), waited);
}

void ProcessWorld::send(std::int64_t to, std::shared_ptr<OutMessage> message) {
  wire_->send(to, std::move(message));
}

void ProcessWorld::expect(const std::shared_ptr<ProcessOperation>& operation, const PieceKey& key,
                          std::byte* to, std::int64_t bytes) {
  const auto [it, is_new] = pieces_.try_emplace(key);
  Piece& piece = it->second;
  piece.operation = operation;
  piece.to = to;
  piece.bytes = bytes;
  if (is_new) return;
  if (!check_piece(key, piece)) return;
  if (piece.complete) hand_over(it);
}

bool ProcessWorld::check_piece(const PieceKey& key, const Piece& piece) {
  const ProcessOperation& operation = *piece.operation;
  if (piece.head.check == operation.check() && piece.head.bytes == piece.bytes) return true;
  const std::string theirs = piece.text.empty() ? "another call" : piece.text;
  abort_locked({.fault = DistFault::kMismatch,
                .origin_rank = options_.global_rank,
                .message = fmt::format(
                    "calls differ on {} ({}): rank {} calls {}, rank {} calls {}",
                    operation.group().axis.to_string(), to_string(operation.group().purpose),
                    options_.global_rank, operation.descriptor().to_string(), key.from, theirs)});
  return false;
}

namespace {

PieceKey key_of(std::int64_t from, const MessageHead& head) {
  return {.channel = head.channel,
          .place = head.place,
          .tag = head.tag,
          .from = from,
          .kind = head.kind,
          .part = head.part};
}

}  // namespace

std::byte* ProcessWorld::on_head(std::int64_t from, const MessageHead& head,
                                 std::string_view text) {
  if (head.kind == MessageKind::kGoodbye) {
    left_.insert(from);
    check_nobody_left();
    changed_.notify_all();
    return nullptr;
  }
  if (head.kind == MessageKind::kAbort) {
    // Handed on by everybody before its goodbye, or a third rank could take that for an early end.
    abort_locked({.fault = static_cast<DistFault>(std::min<std::uint64_t>(
                      head.place, static_cast<std::uint64_t>(DistFault::kAborted))),
                  .origin_rank = head.origin,
                  .exit = static_cast<ExitCode>(head.tag),
                  .message = std::string(text)});
    return nullptr;
  }
  const PieceKey key = key_of(from, head);
  const auto [it, is_new] = pieces_.try_emplace(key);
  Piece& piece = it->second;
  if (piece.arriving) {  // the same message twice: no call can be meant
    abort_locked({.fault = DistFault::kMismatch,
                  .origin_rank = from,
                  .message = fmt::format("rank {} sent a message twice: {}", from, text)});
  }
  piece.arriving = true;
  piece.head = head;
  piece.text = text;
  const bool fits = piece.operation == nullptr || check_piece(key, piece);
  if (head.bytes == 0) return nullptr;
  if (piece.operation != nullptr && piece.to != nullptr && fits) return piece.to;
  piece.buffer.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(head.bytes)]);
  return piece.buffer.get();
}

void ProcessWorld::on_message(std::int64_t from, const MessageHead& head) {
  if (head.kind == MessageKind::kGoodbye || head.kind == MessageKind::kAbort) return;
  const auto it = pieces_.find(key_of(from, head));
  if (it == pieces_.end()) return;
  it->second.complete = true;
  if (it->second.operation != nullptr && !fault_) hand_over(it);
}

void ProcessWorld::hand_over(Pieces::iterator it) {
  Piece piece = std::move(it->second);
  const std::int64_t from = it->first.from;
  pieces_.erase(it);
  if (piece.to != nullptr && piece.buffer != nullptr) {
    std::memcpy(piece.to, piece.buffer.get(), static_cast<std::size_t>(piece.bytes));
    piece.buffer.reset();
  }
  piece.operation->piece_arrived(from, std::move(piece.buffer));
}

void ProcessWorld::on_lost(std::int64_t from, const std::string& why) {
  if (left_.contains(from) || !lost_.insert(from).second) return;
  abort_locked({.fault = DistFault::kPeerLost,
                .origin_rank = from,
                .message = fmt::format("rank {} is gone: {}", from, why)});
}

/// A rank that has ended its work can no longer join a call it has not begun.
void ProcessWorld::check_nobody_left() {
  if (left_.empty() || fault_) return;
  for (const auto& operation : open_) {
    for (const std::int64_t rank : operation->missing_ranks()) {
      if (!left_.contains(rank)) continue;
      abort_locked({.fault = DistFault::kPeerLeft,
                    .origin_rank = options_.global_rank,
                    .message = fmt::format(
                        "{} on {} ({}): rank {} ended its work without joining "
                        "rank {}",
                        operation->descriptor().to_string(), operation->group().axis.to_string(),
                        to_string(operation->group().purpose), rank, options_.global_rank)});
      return;
    }
  }
}

void ProcessWorld::completed(ProcessOperation& operation) {
  std::erase_if(open_, [&](const auto& one) { return one.get() == &operation; });
  operation.mark_done();
  parker_.notify();
}

}  // namespace sx::detail
