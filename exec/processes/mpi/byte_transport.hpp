// Messages over MPI: a communicator for each channel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <array>
#include <vector>

#include "exec/processes/wire.hpp"

namespace weir {

class MpiWire : public Wire {
 public:
  // Collective: starts MPI. Throws RunFailed where it cannot be used by several threads in turn.
  MpiWire();
  MpiWire(const MpiWire&) = delete;
  MpiWire& operator=(const MpiWire&) = delete;

  [[nodiscard]] int index() const override { return index_; }
  [[nodiscard]] int count() const override { return count_; }
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] Request start_send(int to, Channel channel, int tag,
                                   std::span<const std::byte> data) override;
  [[nodiscard]] Request start_receive(int from, Channel channel, int tag,
                                      std::span<std::byte> data) override;
  [[nodiscard]] bool done(Request request) override;
  [[nodiscard]] std::optional<Arrival> arrival(Channel channel) override;
  [[nodiscard]] Request take(Channel channel, std::span<std::byte> data) override;
  void progress() override {}  // MPI moves messages when it is asked for them
  [[nodiscard]] bool gone(int) const override { return false; }
  [[nodiscard]] bool heard(int) override { return false; }
  void rest(std::chrono::nanoseconds limit) override;
  void leave() override;
  void abandon(int exit_code, std::chrono::nanoseconds delay) override;

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
