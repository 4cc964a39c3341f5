#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sextant/base/units.h"
#include "sextant/dist/detail/descriptor.h"
#include "sextant/dist/detail/first_error.h"
#include "sextant/dist/detail/parker.h"
#include "sextant/dist/detail/transport.h"
#include "sextant/dist/dist_error.h"
#include "sextant/dist/wire.h"

namespace sx::detail {

class ProcessWorld;
class ProcessOperation;

using Buffer = std::unique_ptr<std::byte[]>;

/// One message that one call awaits, or that came before its call.
struct Piece {
  std::shared_ptr<ProcessOperation> operation;  ///< null: the call has not been made here yet
  std::byte* to = nullptr;                      ///< where the payload belongs; null = `buffer`
  std::int64_t bytes = 0;                       ///< awaited
  Buffer buffer;
  MessageHead head;
  std::string text;
  bool arriving = false;  ///< the head is here
  bool complete = false;  ///< the payload, too
};

struct PieceKey {
  std::uint64_t channel = 0;
  std::uint64_t place = 0;
  std::int64_t tag = 0;
  std::int64_t from = 0;
  MessageKind kind = MessageKind::kCollective;
  std::uint32_t part = 0;
  friend bool operator==(const PieceKey&, const PieceKey&) = default;
};

struct PieceKeyHash {
  std::size_t operator()(const PieceKey& key) const;
};

struct ProcessWorldOptions {
  std::int64_t global_rank = 0;
  std::int64_t world_size = 1;
  const char* transport = "tcp";
  Seconds timeout{600.0};
  bool flush_denormals = true;
};

/// One rank's side of a world of processes. The rank's thread starts calls and waits; a
/// communication thread owns the wire, matches messages with calls, folds, and so makes progress
/// while the rank computes.
class ProcessWorld final : public WireSink {
 public:
  /// `make_wire` runs on the communication thread; what it throws is thrown here.
  ProcessWorld(const ProcessWorldOptions& options,
               const std::function<std::unique_ptr<Wire>()>& make_wire);
  ~ProcessWorld() override;

  // The rank's thread.
  std::unique_ptr<Transport> make_transport(GroupInfo group);
  /// Contract error when an earlier handle was dropped; DistError when the world is aborted.
  void before_start(const GroupInfo& group, const Descriptor& descriptor);
  void start(std::shared_ptr<ProcessOperation> operation);
  void wait_for(ProcessOperation& operation);
  void note_drop(const ProcessOperation& operation) noexcept;
  /// Waits for all that is in flight and for the word of every rank that it is done, too. Nothing
  /// may be started afterwards.
  void finish();

  // Any thread.
  /// The first fault counts; all ranks are told. Returns the one that counts.
  WorldFault abort(const WorldFault& fault);
  std::optional<WorldFault> fault() const;
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  /// Waits until every rank still there has heard of the fault and left its work, at most `limit`.
  void linger(Seconds limit);
  /// Another rank is gone, as seen from outside the wire.
  void lose(std::int64_t rank, const std::string& why);
  bool has_left(std::int64_t rank) const;

  const ProcessWorldOptions& options() const { return options_; }
  DistError error_of(const GroupInfo& group, const Descriptor& descriptor, Seconds waited) const;

  // The communication thread; called by operations under `mutex()`.
  void send(std::int64_t to, std::shared_ptr<OutMessage> message);
  void expect(const std::shared_ptr<ProcessOperation>& operation, const PieceKey& key,
              std::byte* to, std::int64_t bytes);
  void completed(ProcessOperation& operation);

  std::byte* on_head(std::int64_t from, const MessageHead& head, std::string_view text) override;
  void on_message(std::int64_t from, const MessageHead& head) override;
  void on_lost(std::int64_t from, const std::string& why) override;

 private:
  enum class Ending { kNo, kFinish, kLinger, kLetGo };

  void run(const std::function<std::unique_ptr<Wire>()>& make_wire, std::exception_ptr& error);
  void loop(Wire& wire);
  using Pieces = std::unordered_map<PieceKey, Piece, PieceKeyHash>;
  // Under the mutex.
  bool take_started();
  void tell_all(const MessageHead& head, const std::string& text);
  void note_ending();
  bool others_are_done() const;
  void hand_over(Pieces::iterator it);
  bool check_piece(const PieceKey& key, const Piece& piece);
  void check_nobody_left();
  void abort_locked(const WorldFault& fault);
  [[noreturn]] void fail(const ProcessOperation& operation, DistFault fault,
                         const std::string& message, Seconds waited);

  ProcessWorldOptions options_;
  Parker parker_;  // of the rank's thread
  std::string dropped_;
  std::map<std::pair<std::vector<std::int64_t>, Purpose>, std::uint64_t> instances_;

  std::mutex started_mutex_;
  std::vector<std::shared_ptr<ProcessOperation>> started_;  // not yet seen by the other thread

  mutable std::mutex mutex_;  // guards all below but the atomics; held while the wire moves
  std::condition_variable changed_;
  std::vector<std::shared_ptr<ProcessOperation>> open_;  // begun, not done
  Pieces pieces_;
  std::set<std::int64_t> left_;  // ranks that said goodbye
  std::set<std::int64_t> lost_;
  std::optional<WorldFault> fault_;
  Ending ending_ = Ending::kNo;
  bool running_ = false;
  bool ended_ = false;
  bool told_ = false;
  bool said_goodbye_ = false;
  std::atomic<bool> aborted_{false};
  std::unique_ptr<Wire> wire_;  // of the communication thread; others call `wake` only
  std::thread thread_;
};

}  // namespace sx::detail
