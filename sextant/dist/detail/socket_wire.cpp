// Messages over TCP: one non-blocking connection to each other rank, served by poll.
#include "sextant/dist/detail/socket_wire.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <vector>

#include "sextant/base/check.h"
#include "sextant/base/diagnostic.h"
#include "sextant/dist/message_reader.h"
#include "sextant/dist/detail/socket_mesh.h"

namespace sx::detail {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
/// One peer may not hold the others up longer than this many bytes.
constexpr std::size_t kReadBudget = 4 * 1024 * 1024;

struct Peer {
  explicit Peer(std::int64_t rank) : reader(rank) {}
  Socket socket;
  MessageReader reader;
  std::deque<std::shared_ptr<OutMessage>> outgoing;
  std::size_t sent = 0;  // bytes of the first of them, head and text included
  bool open = false;
};

class SocketWire final : public Wire {
 public:
  SocketWire(std::vector<Socket> sockets, std::int64_t own)
      : own_(own), read_buffer_(kReadBytes), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    SX_CHECK(wake_.fd() >= 0, "eventfd: {}", std::strerror(errno));
    for (std::size_t rank = 0; rank < sockets.size(); ++rank) {
      peers_.emplace_back(static_cast<std::int64_t>(rank));
      peers_.back().open = static_cast<std::int64_t>(rank) != own;
      peers_.back().socket = std::move(sockets[rank]);
    }
  }

  void send(std::int64_t to, std::shared_ptr<OutMessage> message) override {
    Peer& peer = peers_[static_cast<std::size_t>(to)];
    SX_CHECK(to != own_, "a rank sends to itself over the wire");
    if (!peer.open) return;  // the sink knows that the rank is lost
    peer.outgoing.push_back(std::move(message));
  }

  bool progress(WireSink& sink) override {
    bool moved = false;
    for (Peer& peer : peers_) {
      if (!peer.open) continue;
      moved = write_some(peer, sink) || moved;
      if (peer.open) moved = read_some(peer, sink) || moved;
    }
    return moved;
  }

  void wait(bool, std::chrono::microseconds limit) override {
    std::vector<pollfd> polled{{.fd = wake_.fd(), .events = POLLIN, .revents = 0}};
    for (const Peer& peer : peers_) {
      if (!peer.open) continue;
      const short writes = peer.outgoing.empty() ? 0 : POLLOUT;
      polled.push_back(
          {.fd = peer.socket.fd(), .events = static_cast<short>(POLLIN | writes), .revents = 0});
    }
    const auto milliseconds = std::max<std::int64_t>(limit.count() / 1000, 1);
    poll(polled.data(), polled.size(), static_cast<int>(milliseconds));
    std::uint64_t count = 0;
    if (read(wake_.fd(), &count, sizeof count) < 0) return;  // nobody called wake
  }

  void wake() override {
    const std::uint64_t one = 1;
    if (write(wake_.fd(), &one, sizeof one) < 0) return;  // already at its limit: it will wake
  }

  bool flushed() const override {
    return std::all_of(peers_.begin(), peers_.end(),
                       [](const Peer& peer) { return !peer.open || peer.outgoing.empty(); });
  }

  void close() override {
    for (Peer& peer : peers_) {
      if (peer.open) shutdown(peer.socket.fd(), SHUT_WR);
      peer.open = false;
    }
  }

 private:
  void lose(Peer& peer, const std::string& why, WireSink& sink) {
    peer.open = false;
    peer.outgoing.clear();
    sink.on_lost(&peer - peers_.data(), why);
  }

  bool write_some(Peer& peer, WireSink& sink) {
    bool moved = false;
    while (!peer.outgoing.empty()) {
      OutMessage& message = *peer.outgoing.front();
      message.head.text_bytes = static_cast<std::uint32_t>(message.text.size());
      const std::array<std::pair<const void*, std::size_t>, 3> parts{
          {{&message.head, sizeof message.head},
           {message.text.data(), message.text.size()},
           {message.data, static_cast<std::size_t>(message.head.bytes)}}};
      std::array<iovec, 3> vectors{};
      std::size_t skip = peer.sent;
      std::size_t total = 0;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::size_t begin = std::min(skip, parts[i].second);
        skip -= begin;
        total += parts[i].second;
        vectors[i] = {const_cast<char*>(static_cast<const char*>(parts[i].first)) + begin,
                      parts[i].second - begin};
      }
      msghdr out{};
      out.msg_iov = vectors.data();
      out.msg_iovlen = vectors.size();
      const ssize_t count = sendmsg(peer.socket.fd(), &out, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0) {
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
          // What the rank said last (why it leaves) may still lie in the socket.
          while (peer.open && read_some(peer, sink)) {
          }
          if (peer.open) lose(peer, std::strerror(errno), sink);
        }
        return moved;
      }
      moved = true;
      peer.sent += static_cast<std::size_t>(count);
      if (peer.sent < total) continue;
      peer.sent = 0;
      const std::shared_ptr<OutMessage> done = std::move(peer.outgoing.front());
      peer.outgoing.pop_front();
      if (done->sent) done->sent();
    }
    return moved;
  }

  bool read_some(Peer& peer, WireSink& sink) {
    std::size_t budget = kReadBudget;
    bool moved = false;
    while (budget > 0) {
      const std::span<std::byte> room = peer.reader.payload_room();
      const bool direct = room.size() >= kReadBytes;
      const std::span<std::byte> into = direct ? room : std::span<std::byte>(read_buffer_);
      const ssize_t count =
          recv(peer.socket.fd(), into.data(), std::min(into.size(), budget), MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return moved;
      if (count <= 0) {
        lose(peer, count == 0 ? "it closed the connection" : std::strerror(errno), sink);
        return moved;
      }
      moved = true;
      budget -= static_cast<std::size_t>(count);
      if (direct) {
        peer.reader.payload_filled(static_cast<std::size_t>(count), sink);
      } else if (!peer.reader.feed(into.first(static_cast<std::size_t>(count)), sink)) {
        lose(peer, "it broke the protocol: " + peer.reader.fault(), sink);
        return moved;
      }
      if (static_cast<std::size_t>(count) < into.size()) return moved;
    }
    return moved;
  }

  std::int64_t own_;
  std::vector<std::byte> read_buffer_;
  Socket wake_;
  std::vector<Peer> peers_;
};

}  // namespace

std::unique_ptr<Wire> make_socket_wire(RankStore& store, const SocketWireOptions& options) {
  return std::make_unique<SocketWire>(connect_all(store, options), options.global_rank);
}

}  // namespace sx::detail
