// A TCP socket, and what waits on it until a deadline. Sockets do not block: all waiting is
// poll(2).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weir {

using Deadline = std::chrono::steady_clock::time_point;

class Socket {
 public:
  Socket() = default;
  explicit Socket(int handle) : handle_(handle) {}
  Socket(Socket&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Socket();
  [[nodiscard]] int handle() const { return handle_; }
  explicit operator bool() const { return handle_ >= 0; }

 private:
  int handle_ = -1;
};

// What one call could move.
struct Moved {
  std::size_t bytes = 0;
  bool closed = false;  // the other end has gone or this one was reset; nothing more will come
};
[[nodiscard]] Moved receive_some(const Socket& socket, std::span<std::byte> into);
// `head`, then `body`, as far as they go.
[[nodiscard]] Moved send_some(const Socket& socket, std::span<const std::byte> head,
                              std::span<const std::byte> body);

// False where the other end closed or the deadline passed.
[[nodiscard]] bool send_all(const Socket& socket, std::span<const std::byte> bytes,
                            Deadline deadline);
[[nodiscard]] bool receive_all(const Socket& socket, std::span<std::byte> into, Deadline deadline);
[[nodiscard]] bool is_closed(const Socket& socket);  // by the other end; reads nothing

// `address` is numeric, IPv4 or IPv6. Empty where nobody answers there.
[[nodiscard]] Socket connect_to(const std::string& address, std::uint16_t port, Deadline deadline);
// Of this host, numeric, those that other hosts may reach first, loopback last.
[[nodiscard]] std::vector<std::string> own_addresses();

struct Listening {
  Socket socket;
  std::uint16_t port = 0;
};
// On a free port of every address. Throws RunFailed.
[[nodiscard]] Listening listen_anywhere();
[[nodiscard]] Socket accept_from(const Socket& listening);  // empty where nobody waits

}  // namespace weir
