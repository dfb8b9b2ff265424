// The processes of a run, one rank each, as the run sees them: who is there, messages between two
// of them, and how all of them end together. Implemented in exec/processes/mpi/process_group, over
// MPI. Process (d * T + t) * K + k is rank k of replica d, the t-th of the T devices that divide
// its layers; process 0, the leader, collects what the run returns and is the only one that speaks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "exec/device/arena.hpp"
#include "exec/device/backend.hpp"
#include "exec/rank/transport.hpp"
#include "exec/streams/stream_transport.hpp"
#include "plan/program/program.hpp"
#include "plan/text/ending.hpp"

namespace weir {

// Where a process sits.
struct ProcessLocation {
  std::string host;
  std::uint64_t clock = 0;  // processes with the same number share a steady_clock
  int on_host = 0;          // its number among the processes of its host
  int host_processes = 1;   // how many those are
  int on_cores = 0;         // its number among those of them that may use the same cores
};

class Processes {
 public:
  virtual ~Processes() = default;
  [[nodiscard]] virtual int index() const = 0;
  [[nodiscard]] virtual int count() const = 0;
  [[nodiscard]] virtual const ProcessLocation& location(int process) const = 0;
  [[nodiscard]] virtual bool oversubscribed() const = 0;  // more processes than cores on some host
  [[nodiscard]] virtual std::string description() const = 0;  // "Open MPI v4.1.4"

  // Messages of one sender, receiver and tag arrive in order. The memory stays untouched until
  // `wait`. All that wait throw Transport::Stopped once a process has failed.
  using Ticket = std::int64_t;
  [[nodiscard]] virtual Ticket start_send(int to, int tag, std::span<const std::byte> data) = 0;
  [[nodiscard]] virtual Ticket start_receive(int from, int tag, std::span<std::byte> data) = 0;
  virtual void wait(Ticket ticket) = 0;
  // Waits for something else, looking for failures meanwhile; `ready` must not call this object.
  virtual void wait_until(const std::function<bool()>& ready) = 0;
  virtual void barrier() = 0;

  // A process calls this when it failed (`own`), or when it was stopped because another did
  // (nothing): all others stop, and all agree on one ending, the leader's own or else the first
  // failure's as a failed run. Until it returns, memory given to messages must stay.
  [[nodiscard]] virtual Ending conclude(const std::optional<Ending>& own) = 0;
};

// What a transport between processes is opened with.
struct TransportRequest {
  const Program& program;
  const std::vector<std::int64_t>& message_bytes;  // by operation; empty for timed waits
  Rank rank;                                       // this process's
  int first_process = 0;                           // the one with rank 0 of this replica
  Backend* backend;                                // null for timed waits: messages are empty
  Arena* arena;                                    // null for timed waits
  Transport::Now now;
};

// A transport whose far ends are other processes.
class ProcessTransport : public Transport {
 public:
  virtual void end_step() = 0;  // waits until all that was sent has left
  [[nodiscard]] virtual std::int64_t blocks()
      const = 0;  // taken from the backend so far, beside the arena's
};
using TransportFactory = std::function<std::unique_ptr<ProcessTransport>(const TransportRequest&)>;

// How messages go between the processes of a run: by a transport that waits, or by one that
// launches.
using ProcessLinks = std::variant<TransportFactory, StreamTransportFactory>;

}  // namespace weir
