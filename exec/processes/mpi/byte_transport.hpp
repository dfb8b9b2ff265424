// The byte transport between the processes of a run: MPI, with a communicator for each channel.
// Nothing here waits but the constructor; exec/processes/mpi/process_group makes processes of it
// and exec/processes/mpi/mpi_transport the edges of a plan. One thread at a time may call it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weir {

// Messages of one sender, receiver, channel and tag arrive in order; channels keep those who use
// them apart.
enum class Channel : std::uint8_t { messages, barriers, control, edges, credits };
inline constexpr int kChannels = 5;

class ByteTransport {
 public:
  using Request = std::int32_t;  // a message under way
  struct Arrival {  // a message that nobody has asked for yet; its content may still be on the way
    int from = 0;
    int tag = 0;
    std::size_t bytes = 0;
  };
  // For what waits within MPI until all processes are there: MPI does not let itself be
  // interrupted.
  struct Patience {
    std::chrono::nanoseconds limit = std::chrono::seconds(10);
    std::function<void()> late;  // called by a thread of its own then: ends the process
  };

  // Collective: starts MPI. Throws RunFailed where it cannot be used by several threads in turn.
  explicit ByteTransport(const Patience& patience);
  ByteTransport(const ByteTransport&) = delete;
  ByteTransport& operator=(const ByteTransport&) = delete;

  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] static std::string description();

  // The memory stays untouched until the request is done. A receive has the size of its message; it
  // is for channels on which nobody looks for arrivals.
  [[nodiscard]] Request start_send(int to, Channel channel, int tag,
                                   std::span<const std::byte> data);
  [[nodiscard]] Request start_receive(int from, Channel channel, int tag,
                                      std::span<std::byte> data);
  // True once; the request is then forgotten.
  [[nodiscard]] bool done(Request request);
  // The next message on the channel, which `take` must receive before the next look.
  [[nodiscard]] std::optional<Arrival> arrival(Channel channel);
  [[nodiscard]] Request take(std::span<std::byte> data);

  // The two ends. All leave together, when all messages have arrived. Where a process is gone or
  // does not stop, another abandons it: that ends all processes, with this code, and does not
  // return.
  static void leave(const Patience& patience);
  static void abandon(int code, const Patience& patience);

 private:
  [[nodiscard]] Request open();
  [[nodiscard]] MPI_Comm comm(Channel channel) const {
    return comms_[static_cast<std::size_t>(channel)];
  }

  int index_ = 0;
  int count_ = 1;
  std::array<MPI_Comm, kChannels> comms_{};
  MPI_Message arrived_ = MPI_MESSAGE_NULL;
  std::vector<MPI_Request> requests_;
  std::vector<Request> free_;  // of them
};

}  // namespace weir
