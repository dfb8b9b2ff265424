// What carries messages between the processes of a run: MPI (exec/processes/mpi). Nothing here
// waits but `rest`; exec/processes/mpi/process_group makes processes of it and
// exec/processes/mpi/mpi_transport the edges of a plan. One thread at a time may call it, except
// for `rest`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace weir {

// Messages of one sender, receiver, channel and tag arrive in order; channels keep those who use
// them apart.
enum class Channel : std::uint8_t { messages, barriers, control, edges, credits };
inline constexpr int kChannels = 5;

class Wire {
 public:
  using Request = std::int32_t;  // a message under way
  struct Arrival {  // a message that nobody has asked for yet; its content may still be on the way
    int from = 0;
    int tag = 0;
    std::size_t bytes = 0;
  };

  virtual ~Wire() = default;
  [[nodiscard]] virtual int index() const = 0;
  [[nodiscard]] virtual int count() const = 0;
  [[nodiscard]] virtual std::string description() const = 0;

  // The memory stays untouched until the request is done. A receive has the size of its message; it
  // is for channels on which nobody looks for arrivals.
  [[nodiscard]] virtual Request start_send(int to, Channel channel, int tag,
                                           std::span<const std::byte> data) = 0;
  [[nodiscard]] virtual Request start_receive(int from, Channel channel, int tag,
                                              std::span<std::byte> data) = 0;
  // True once; the request is then forgotten.
  [[nodiscard]] virtual bool done(Request request) = 0;
  // The next message on the channel, which `take` must receive before the next look.
  [[nodiscard]] virtual std::optional<Arrival> arrival(Channel channel) = 0;
  [[nodiscard]] virtual Request take(Channel channel, std::span<std::byte> data) = 0;

  virtual void progress() = 0;  // moves what can be moved
  // The process has ended without leaving, as far as can be seen from here; MPI does not let that
  // be seen.
  [[nodiscard]] virtual bool gone(int process) const = 0;
  // Whether anything has come from it since the last question, part of a message perhaps.
  [[nodiscard]] virtual bool heard(int process) = 0;
  // Sleeps, at most so long; less where something has come and the wire can be woken by it. Any
  // thread may call it.
  virtual void rest(std::chrono::nanoseconds limit) = 0;

  // The two ends. All leave together, when all messages have arrived. Where a process is gone or
  // does not stop, the others abandon it: MPI ends all of them with this exit code (after `delay`,
  // to be ended by another meanwhile) and does not return.
  virtual void leave() = 0;
  virtual void abandon(int exit_code, std::chrono::nanoseconds delay) = 0;
};

}  // namespace weir
