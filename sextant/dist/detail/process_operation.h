#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sextant/dist/detail/process_world.h"

namespace sx::detail {

/// One rank's side of a group of processes.
struct ProcessMember {
  ProcessMember(ProcessWorld& w, GroupInfo i, std::uint64_t c)
      : world(w), info(std::move(i)), channel(c) {}

  ProcessWorld& world;
  GroupInfo info;
  std::uint64_t channel;
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> sends;  // by (to, tag)
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> recvs;  // by (from, tag)
};

/// A call between `start` and its end: in each part it sends one message to every other rank of the
/// group and gets one from each; the payload may be empty. That one message comes from everybody is
/// what lets every rank compare the calls at the call.
///
///   part 0  all_reduce: the whole vector up to 16 KiB, else slice c to coord c; reduce_scatter,
///           all_to_all: slice c to coord c; all_gather: the own input to all; broadcast: the root
///           sends all of it up to 64 KiB or to a single peer, else slice c to coord c
///   part 1  all_reduce, broadcast (the cut ones): the own slice to all
///
/// Threads: made by the rank's thread, then used by the communication thread under the world's
/// mutex; `done` and `wait` by the rank's thread.
class ProcessOperation final : public PendingOperation,
                               public std::enable_shared_from_this<ProcessOperation> {
 public:
  ProcessOperation(std::shared_ptr<ProcessMember> member, Operation operation,
                   Descriptor descriptor, Seconds timeout, std::uint64_t p2p_place);

  void wait() override { member_->world.wait_for(*this); }
  bool poll() noexcept override { return done() || member_->world.aborted(); }
  void drop() noexcept override { member_->world.note_drop(*this); }

  bool done() const { return done_.load(std::memory_order_acquire); }
  const Descriptor& descriptor() const { return descriptor_; }
  const GroupInfo& group() const { return member_->info; }
  Seconds timeout() const { return timeout_; }
  std::uint64_t check() const { return check_; }

  // The communication thread.
  void begin();
  /// The message of `from` (global rank) for the current part is here, in its place or in `buffer`.
  void piece_arrived(std::int64_t from, Buffer buffer);
  /// Global ranks whose message is missing.
  std::vector<std::int64_t> missing_ranks() const;
  /// Global ranks that have not taken what was sent to them.
  std::vector<std::int64_t> unsent_ranks() const;
  void mark_done() { done_.store(true, std::memory_order_release); }

 private:
  struct Slice {
    std::int64_t begin = 0;  // in elements
    std::int64_t count = 0;
  };

  void begin_part();
  void begin_send();
  void begin_recv();
  void begin_all_reduce();
  void begin_broadcast();
  void exchange(std::int64_t coord, const std::byte* data, std::int64_t send_bytes, std::byte* to,
                std::int64_t recv_bytes);
  void post(std::int64_t coord, MessageKind kind, const std::byte* data, std::int64_t bytes);
  void advance();
  void end_part();
  void fold_slice(const Slice& own, const std::byte* own_data, std::byte* out);
  Slice cut(std::int64_t coord) const;
  bool is_cut() const;
  std::int64_t element_bytes() const;
  std::byte* out(std::int64_t element) const;
  const std::byte* in(std::int64_t element) const;
  std::int64_t coord_of(std::int64_t global_rank) const;

  std::shared_ptr<ProcessMember> member_;
  Operation operation_;
  Descriptor descriptor_;
  Seconds timeout_;
  std::uint64_t check_ = 0;
  std::string text_;  // the call in words, once it was needed
  std::uint64_t p2p_place_ = 0;
  std::atomic<bool> done_{false};

  std::uint32_t part_ = 0;
  std::vector<bool> missing_;  // by coord
  std::int64_t num_missing_ = 0;
  std::int64_t num_unsent_ = 0;
  std::vector<std::int64_t> unsent_;  ///< messages on their way, by coord
  bool beginning_ = false;
  std::vector<Buffer> buffers_;  // by coord: slices to fold
  Buffer staged_;                // own input of a small all_reduce
};

}  // namespace sx::detail
