// SPDX-License-Identifier: Apache-2.0
#include "exec/socket/socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr int kBacklog = 1024;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

bool await(const Socket& socket, short events, Deadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd entry{socket.handle(), events, 0};
    const int ready =
        ::poll(&entry, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000)));
    if (ready > 0) return true;
    if (left.count() <= 0) return false;
  }
}

Socket unblocked(int handle) {
  Socket socket(handle);
  if (handle < 0) return socket;
  ::fcntl(handle, F_SETFD, FD_CLOEXEC);
  ::fcntl(handle, F_SETFL, ::fcntl(handle, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  ::setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return socket;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses parse(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    found = nullptr;
  return {found, &::freeaddrinfo};
}

template <class Address>
Listening listen_on(const Address& any) {
  const auto* address = reinterpret_cast<const sockaddr*>(&any);
  Listening made{unblocked(::socket(address->sa_family, SOCK_STREAM, 0)), 0};
  if (!made.socket) return {};
  const int off = 0;
  if (address->sa_family == AF_INET6) {
    ::setsockopt(made.socket.handle(), IPPROTO_IPV6, IPV6_V6ONLY, &off,
                 sizeof(off));  // IPv4 comes here, too
  }
  Address bound{};
  socklen_t size = sizeof(bound);
  if (::bind(made.socket.handle(), address, sizeof(any)) != 0 ||
      ::listen(made.socket.handle(), kBacklog) != 0 ||
      ::getsockname(made.socket.handle(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return {};
  }
  if constexpr (std::is_same_v<Address, sockaddr_in6>) {
    made.port = ntohs(bound.sin6_port);
  } else {
    made.port = ntohs(bound.sin_port);
  }
  return made;
}

}  // namespace

Socket::~Socket() {
  if (handle_ >= 0) ::close(handle_);
}

Moved receive_some(const Socket& socket, std::span<std::byte> into) {
  const ssize_t got = ::recv(socket.handle(), into.data(), into.size(), 0);
  if (got > 0) return {static_cast<std::size_t>(got), false};
  return {0, got == 0 || !would_block()};
}

Moved send_some(const Socket& socket, std::span<const std::byte> head,
                std::span<const std::byte> body) {
  std::array<iovec, 2> parts{
      {{const_cast<std::byte*>(head.data()), head.size()},
       {const_cast<std::byte*>(body.data()), body.size()}}};  // sendmsg only reads
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t sent = ::sendmsg(socket.handle(), &message, MSG_NOSIGNAL);
  if (sent >= 0) return {static_cast<std::size_t>(sent), false};
  return {0, !would_block()};
}

bool send_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const Moved sent = send_some(socket, bytes, {});
    if (sent.closed || (sent.bytes == 0 && !await(socket, POLLOUT, deadline))) return false;
    bytes = bytes.subspan(sent.bytes);
  }
  return true;
}

bool receive_all(const Socket& socket, std::span<std::byte> into, Deadline deadline) {
  while (!into.empty()) {
    const Moved got = receive_some(socket, into);
    if (got.closed || (got.bytes == 0 && !await(socket, POLLIN, deadline))) return false;
    into = into.subspan(got.bytes);
  }
  return true;
}

bool is_closed(const Socket& socket) {
  char one = 0;
  const ssize_t got = ::recv(socket.handle(), &one, 1, MSG_PEEK);
  return got == 0 || (got < 0 && !would_block());
}

Socket connect_to(const std::string& address, std::uint16_t port, Deadline deadline) {
  const Addresses where = parse(address, port);
  if (!where) return {};
  Socket socket = unblocked(::socket(where->ai_family, SOCK_STREAM, 0));
  if (!socket) return {};
  if (::connect(socket.handle(), where->ai_addr, where->ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS || !await(socket, POLLOUT, deadline)) return {};
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(socket.handle(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? std::move(socket) : Socket();
}

std::vector<std::string> own_addresses() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {"127.0.0.1"};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  std::vector<std::string> reachable, loopback;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    std::array<char, NI_MAXHOST> text{};
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(one->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) !=
        0)
      continue;
    const std::string address(text.data());
    if (address.find('%') != std::string::npos) continue;  // of a link alone
    ((one->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : reachable).push_back(address);
  }
  reachable.insert(reachable.end(), loopback.begin(), loopback.end());
  return reachable;
}

Listening listen_anywhere() {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  Listening made = listen_on(any6);
  if (made.socket) return made;
  sockaddr_in any{};
  any.sin_family = AF_INET;
  made = listen_on(any);
  if (!made.socket)
    throw RunFailed(fmt::format("no port can be listened on: {}", std::strerror(errno)));
  return made;
}

Socket accept_from(const Socket& listening) {
  return unblocked(::accept(listening.handle(), nullptr, nullptr));
}

}  // namespace weir
