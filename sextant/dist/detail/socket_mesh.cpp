// How the ranks find each other: addresses in the store, connections to smaller ranks, greetings.
#include "sextant/dist/detail/socket_mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>

#include "sextant/base/clock.h"
#include "sextant/base/diagnostic.h"
#include "sextant/base/hash.h"
#include "sextant/base/signals.h"
#include "sextant/dist/detail/first_error.h"
#include "sextant/dist/peer_failure.h"

namespace sx::detail {
namespace {

using Clock = std::chrono::steady_clock;

struct Greeting {
  char magic[8] = {'S', 'X', 'W', 'I', 'R', 'E', '0', '1'};
  std::uint64_t secret = 0;
  std::int64_t rank = 0;
  std::int64_t world_size = 0;
};

[[noreturn]] void fail(const std::string& what, const std::string& cause) {
  throw IoError(Diagnostic{.exit = ExitCode::kIo,
                           .number = 9,
                           .what = what,
                           .where = host_name(),
                           .rule = cause,
                           .next = "may the hosts of the run connect to each other?"});
}

[[noreturn]] void missing(const std::vector<std::int64_t>& ranks,
                          const SocketWireOptions& options) {
  throw FatalError(Diagnostic{
      .exit = ExitCode::kPeer,
      .number = 1,
      .what = fmt::format("rank {} of {} did not come within {:.3g} s", fmt::join(ranks, ", "),
                          options.world_size, options.timeout.value),
      .where = fmt::format("rank {}, host {}", options.global_rank, host_name()),
      .rule = "every rank connects to every other before the first step",
      .next = "look at what that rank printed; comm.init_timeout sets the time"});
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  if (getaddrinfo(host.c_str(), service.c_str(), &hints, &found) != 0) found = nullptr;
  return {found, &freeaddrinfo};
}

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

Socket listen_on(const std::string& address, std::int64_t backlog) {
  const Addresses found = resolve(address, 0, AI_NUMERICHOST | AI_PASSIVE);
  if (!found) fail(fmt::format("{} is no numeric address", address), "getaddrinfo");
  Socket listener(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (listener.fd() < 0 || bind(listener.fd(), found->ai_addr, found->ai_addrlen) != 0 ||
      listen(listener.fd(), static_cast<int>(backlog)) != 0) {
    fail(fmt::format("cannot listen on {}", address), std::strerror(errno));
  }
  return listener;
}

void set_options(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

/// Waits for bytes, never longer than until `end`.
bool receive(int fd, void* to, std::size_t size, Clock::time_point end) {
  auto* at = static_cast<char*>(to);
  while (size > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || poll(&one, 1, static_cast<int>(left.count())) <= 0) return false;
    const ssize_t count = recv(fd, at, size, 0);
    if (count <= 0) return false;
    at += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

class Mesh {
 public:
  Mesh(RankStore& store, const SocketWireOptions& options)
      : store_(store),
        options_(options),
        end_(Clock::now() +
             std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout.value * 1000))),
        sockets_(static_cast<std::size_t>(options.world_size)) {}

  std::vector<Socket> connect() {
    const std::string address = options_.address.empty() ? "127.0.0.1" : options_.address;
    const Socket listener = listen_on(address, options_.world_size);
    // Not secret from those who read the store; it keeps out strangers and ranks of other attempts.
    const std::string drawn = std::to_string(
        xxh64(fmt::format("{} {} {}", host_identity(), getpid(), monotonic_microseconds())));
    const std::string agreed = store_.set_once("wire/secret", drawn);
    std::from_chars(agreed.data(), agreed.data() + agreed.size(), secret_);
    store_.set(fmt::format("wire/{}", options_.global_rank),
               fmt::format("{} {}", address, port_of(listener.fd())));
    for (std::int64_t rank = 0; rank < options_.global_rank; ++rank) greet(rank);
    accept_larger(listener.fd());
    return std::move(sockets_);
  }

 private:
  void greet(std::int64_t rank) {
    const std::string key = fmt::format("wire/{}", rank);
    const auto published = store_.get(
        key, left(), [&] { return store_.has(kFirstErrorKey) || signals::stop_requested(); });
    if (!published) {
      stop_if_failed();
      missing({rank}, options_);
    }
    const std::size_t space = published->find(' ');
    const int port = std::atoi(published->c_str() + space + 1);
    const Addresses found = resolve(published->substr(0, space), port, AI_NUMERICHOST);
    if (!found) fail(fmt::format("rank {} listens on \"{}\"", rank, *published), "no address");
    Socket out(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (out.fd() < 0 || ::connect(out.fd(), found->ai_addr, found->ai_addrlen) != 0) {
      fail(fmt::format("cannot connect to rank {} at {}", rank, *published), std::strerror(errno));
    }
    set_options(out.fd());
    const Greeting greeting{
        .secret = secret_, .rank = options_.global_rank, .world_size = options_.world_size};
    if (::send(out.fd(), &greeting, sizeof greeting, MSG_NOSIGNAL) !=
        static_cast<ssize_t>(sizeof greeting)) {
      fail(fmt::format("cannot greet rank {} at {}", rank, *published), std::strerror(errno));
    }
    sockets_[static_cast<std::size_t>(rank)] = std::move(out);
  }

  void accept_larger(int listener) {
    std::vector<std::int64_t> waiting;
    for (std::int64_t r = options_.global_rank + 1; r < options_.world_size; ++r)
      waiting.push_back(r);
    while (!waiting.empty()) {
      pollfd one{.fd = listener, .events = POLLIN, .revents = 0};
      const int ready = poll(&one, 1, static_cast<int>(std::min(left().value * 1000, 100.0)) + 1);
      if (ready <= 0) {
        if (left().value <= 0) missing(waiting, options_);
        stop_if_failed();
        continue;
      }
      Socket in(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
      if (in.fd() < 0) continue;
      Greeting greeting;
      const Greeting expected;
      const auto patience = std::min(end_, Clock::now() + std::chrono::seconds(5));
      if (!receive(in.fd(), &greeting, sizeof greeting, patience)) continue;
      const auto place = std::find(waiting.begin(), waiting.end(), greeting.rank);
      if (std::memcmp(greeting.magic, expected.magic, sizeof expected.magic) != 0 ||
          greeting.secret != secret_ || greeting.world_size != options_.world_size ||
          place == waiting.end()) {
        continue;  // somebody else
      }
      set_options(in.fd());
      sockets_[static_cast<std::size_t>(greeting.rank)] = std::move(in);
      waiting.erase(place);
    }
  }

  /// A rank that failed before it came says so in the store.
  void stop_if_failed() {
    if (signals::stop_requested()) {
      throw FatalError(Diagnostic{.exit = ExitCode::kPeer,
                                  .number = 4,
                                  .what = "stopped while the ranks came together",
                                  .where = host_name(),
                                  .rule = "a signal asked for it",
                                  .next = "the same command begins anew"});
    }
    if (!store_.has(kFirstErrorKey)) return;
    const auto first = WorldFault::from_text(store_.get(kFirstErrorKey, Seconds{1.0}).value_or(""));
    throw PeerFailure(first.origin_rank, first.exit, first.line());
  }

  Seconds left() const {
    return Seconds{std::chrono::duration<double>(end_ - Clock::now()).count()};
  }

  RankStore& store_;
  const SocketWireOptions& options_;
  Clock::time_point end_;
  std::uint64_t secret_ = 0;
  std::vector<Socket> sockets_;
};

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (fd_ >= 0 && fd_ != other.fd_) ::close(fd_);
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

std::vector<Socket> connect_all(RankStore& store, const SocketWireOptions& options) {
  return Mesh(store, options).connect();
}

std::string address_towards(const std::string& host, int port) {
  const std::string fallback = "127.0.0.1";
  const Addresses found = resolve(host, port, 0);
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    // Connecting a datagram socket sends nothing: it only looks the route up.
    Socket probe(socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (probe.fd() < 0 || ::connect(probe.fd(), one->ai_addr, one->ai_addrlen) != 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    char name[128] = {};
    if (getsockname(probe.fd(), reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), length, name, sizeof name, nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      return name;
    }
  }
  return fallback;
}

}  // namespace sx::detail
