// How two processes of a run know each other: whoever connects sends a greeting with the run's
// number, which a stranger does not know, and gets one back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/socket/socket.hpp"

namespace weir {

using RunNumber = std::array<std::uint8_t, 16>;  // random

// Plain bytes: it is sent as it is.
struct Greeting {
  static constexpr std::size_t kMostAddresses = 8;
  std::array<char, 8> magic{'w', 'e', 'i', 'r', ' ', '1', '\n', '\0'};
  RunNumber run{};
  std::uint64_t kernel = 0;  // that runs the process
  std::int32_t index = 0;    // of count processes
  std::int32_t count = 1;
  std::uint32_t port = 0;  // where it listens
  std::array<char, 64> host{};
  std::array<std::array<char, 46>, kMostAddresses> addresses{};  // as text; empty: no more
  std::array<char, 4> reserved{};
};

// This process's, listening on `port`.
[[nodiscard]] Greeting own_greeting(int index, int count, std::uint16_t port);

// Connects to the process that greets so, one address after the other, and exchanges greetings.
// Empty where it is not there.
[[nodiscard]] Socket reach(const Greeting& whom, const Greeting& own, Deadline deadline);

// Where the others come in. Who does not greet, or greets for another run, is not let in and holds
// up nobody.
class Lobby {
 public:
  struct Guest {
    Greeting greeting;
    Socket socket;
  };
  Lobby() : listening_(listen_anywhere()) {}
  [[nodiscard]] std::uint16_t port() const { return listening_.port; }
  // The next that greets for `own.run`; empty at the deadline.
  [[nodiscard]] std::optional<Guest> next(const Greeting& own, Deadline deadline);

 private:
  struct Stranger {
    Socket socket;
    std::array<std::byte, sizeof(Greeting)> said{};
    std::size_t bytes = 0;
    bool out = false;  // is no guest
  };
  void let_in();
  void await(Deadline deadline) const;
  [[nodiscard]] std::optional<Guest> listen_to(Stranger& stranger, const Greeting& own) const;

  Listening listening_;
  std::vector<Stranger> strangers_;
};

}  // namespace weir
