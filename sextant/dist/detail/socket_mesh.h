#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sextant/dist/detail/socket_wire.h"
#include "sextant/dist/rendezvous.h"

namespace sx::detail {

/// A file descriptor that is closed with its owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

/// Sockets to every other rank, by rank; the own place is empty. Errors as `make_socket_wire`.
std::vector<Socket> connect_all(RankStore& store, const SocketWireOptions& options);

/// The own numeric address from which `host` is reached: what others on the way can connect to.
/// 127.0.0.1 when it cannot be found out.
std::string address_towards(const std::string& host, int port);

}  // namespace sx::detail
