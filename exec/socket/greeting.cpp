// SPDX-License-Identifier: Apache-2.0
#include "exec/socket/greeting.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "exec/processes/process_places.hpp"

namespace weir {
namespace {

using namespace std::chrono_literals;

static_assert(std::is_trivially_copyable_v<Greeting> &&
              std::has_unique_object_representations_v<Greeting>);

constexpr std::size_t kMostStrangers = 1024;  // at once; who came first goes first
constexpr auto kAnswerLimit = 2s;             // for one address

Deadline now() { return std::chrono::steady_clock::now(); }

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

template <std::size_t N>
std::string text_of(const std::array<char, N>& text) {
  return {text.begin(), std::find(text.begin(), text.end(), '\0')};
}

// Loopback is for the same machine, unless it is shared by containers with networks of their own.
std::vector<std::string> addresses_for(const Greeting& whom, const Greeting& own) {
  const bool here = whom.kernel == own.kernel && whom.host == own.host;
  std::vector<std::string> addresses;
  if (here) addresses.emplace_back("127.0.0.1");
  for (const auto& text : whom.addresses) {
    const std::string address = text_of(text);
    if (!address.empty() && (here || !is_loopback(address))) addresses.push_back(address);
  }
  return addresses;
}

bool knows(const Greeting& greeting, const Greeting& own) {
  return greeting.magic == own.magic && greeting.run == own.run;
}

}  // namespace

Greeting own_greeting(int index, int count, std::uint16_t port) {
  Greeting own;
  own.kernel = kernel_id();
  own.index = index;
  own.count = count;
  own.port = port;
  host_name().copy(own.host.data(), own.host.size() - 1);
  std::size_t next = 0;
  for (const std::string& address : own_addresses()) {
    if (next < own.addresses.size() && address.size() < own.addresses[0].size()) {
      address.copy(own.addresses[next++].data(), own.addresses[0].size() - 1);
    }
  }
  return own;
}

Socket reach(const Greeting& whom, const Greeting& own, Deadline deadline) {
  for (const std::string& address : addresses_for(whom, own)) {
    const Deadline limit = std::min(deadline, now() + kAnswerLimit);
    Socket socket = connect_to(address, static_cast<std::uint16_t>(whom.port), limit);
    Greeting answer;
    if (socket && send_all(socket, std::as_bytes(std::span(&own, 1)), limit) &&
        receive_all(socket, std::as_writable_bytes(std::span(&answer, 1)), limit) &&
        knows(answer, own) && answer.index == whom.index) {
      return socket;
    }
  }
  return {};
}

void Lobby::await(Deadline deadline) const {
  std::vector<pollfd> entries{{listening_.socket.handle(), POLLIN, 0}};
  for (const Stranger& stranger : strangers_)
    entries.push_back({stranger.socket.handle(), POLLIN, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now());
  ::poll(entries.data(), entries.size(),
         static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000)));
}

void Lobby::let_in() {
  while (Socket socket = accept_from(listening_.socket)) {
    if (strangers_.size() == kMostStrangers) strangers_.erase(strangers_.begin());
    strangers_.push_back({std::move(socket), {}, 0, false});
  }
}

std::optional<Lobby::Guest> Lobby::listen_to(Stranger& stranger, const Greeting& own) const {
  const Moved heard =
      receive_some(stranger.socket, std::span(stranger.said).subspan(stranger.bytes));
  stranger.bytes += heard.bytes;
  stranger.out = heard.closed;
  if (stranger.out || stranger.bytes < stranger.said.size()) return std::nullopt;
  stranger.out = true;
  Greeting greeting;
  std::memcpy(&greeting, stranger.said.data(), sizeof(greeting));
  if (!knows(greeting, own)) return std::nullopt;
  if (!send_all(stranger.socket, std::as_bytes(std::span(&own, 1)), now() + kAnswerLimit))
    return std::nullopt;
  return Guest{greeting, std::move(stranger.socket)};
}

std::optional<Lobby::Guest> Lobby::next(const Greeting& own, Deadline deadline) {
  for (;;) {
    let_in();
    std::optional<Guest> guest;
    for (Stranger& stranger : strangers_) {
      guest = listen_to(stranger, own);
      if (guest) break;
    }
    std::erase_if(strangers_, [](const Stranger& stranger) { return stranger.out; });
    if (guest || now() > deadline) return guest;
    await(deadline);
  }
}

}  // namespace weir
