#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sx::detail {

enum class MessageKind : std::uint32_t { kCollective = 1, kP2p, kAbort, kGoodbye };

/// Begins every message between two processes; sent as it lies in memory, since both ends run the
/// same build on the same byte order (the greeting of the sockets and the start check make sure).
struct MessageHead {
  std::uint64_t channel = 0;  ///< the group (hash of its ranks, purpose and number); 0 = the world
  std::uint64_t place = 0;    ///< the call among the channel's calls
  std::uint64_t check = 0;    ///< hash of all that must agree about the call
  std::int64_t bytes = 0;     ///< payload behind the text
  std::int64_t tag = 0;       ///< of a send; the exit code of an abort
  MessageKind kind = MessageKind::kCollective;
  std::uint32_t part = 0;        ///< phase of the call
  std::uint32_t text_bytes = 0;  ///< the call in words, for messages to a person
  std::uint32_t origin = 0;      ///< of an abort: the rank that failed first
};
static_assert(sizeof(MessageHead) == 56);

inline constexpr std::uint32_t kMaxTextBytes = 4096;
inline constexpr std::int64_t kMaxPayloadBytes = std::int64_t{1} << 42;

/// A message on its way out. `owner` keeps the payload alive; `sent` runs on the communication
/// thread once the payload's memory may be reused.
struct OutMessage {
  MessageHead head;
  std::string text;
  const std::byte* data = nullptr;
  std::shared_ptr<const void> owner;
  std::function<void()> sent;
};

/// Who takes what comes in. Called by the communication thread, from inside `Wire::progress`.
class WireSink {
 public:
  virtual ~WireSink() = default;
  /// A head and its text are here: where the payload (head.bytes) goes. Null only for no bytes.
  virtual std::byte* on_head(std::int64_t from, const MessageHead& head, std::string_view text) = 0;
  /// The payload of that head is complete.
  virtual void on_message(std::int64_t from, const MessageHead& head) = 0;
  /// The connection to a rank ended, or it broke the protocol.
  virtual void on_lost(std::int64_t from, const std::string& why) = 0;
};

/// Moves messages between the processes of a world; order is kept between two ranks. All calls but
/// `wake` come from one thread, the communication thread of the process.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual void send(std::int64_t to, std::shared_ptr<OutMessage> message) = 0;
  /// Sends and receives what goes without waiting; true when anything moved.
  virtual bool progress(WireSink& sink) = 0;
  /// Sleeps until something may have arrived, a `wake` came, or `limit` has passed. `busy`: an
  /// operation is under way.
  virtual void wait(bool busy, std::chrono::microseconds limit) = 0;
  /// From any thread: ends a `wait`, now or the next one.
  virtual void wake() = 0;
  /// Nothing is left to send.
  virtual bool flushed() const = 0;
  /// Ends the connections in order; without it the wire is only let go of.
  virtual void close() = 0;
};

}  // namespace sx::detail
