// Replicas as processes: a gather and a reduce-scatter are messages between all of them, a slice
// each, so each sends (D - 1) / D of the numbers, as a ring does. What a device has goes through
// copies in the host's memory, and sums are the host's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "exec/device/backend.hpp"
#include "exec/processes/processes.hpp"
#include "exec/training/replica_group.hpp"
#include "exec/training/replica_share.hpp"

namespace weir {

class ProcessReplicaGroup : public ReplicaGroup {
 public:
  // `members`: the processes of the group by replica, this one among them. The others outlive it.
  ProcessReplicaGroup(std::vector<int> members, Processes& processes, Backend& backend);

  void start_gather(std::span<const DividedTensor> tensors) override;
  void finish_gather() override;
  void start_sum(std::span<const DividedTensor> tensors, Into own) override;
  void finish_sum() override;

 private:
  using Tickets = std::vector<Processes::Ticket>;
  // Tensors of a gather or a sum that was started, and their copies where they are a device's.
  struct Started {
    std::vector<DividedTensor> tensors;
    std::vector<std::vector<std::byte>> copies;
    Tickets tickets;
    [[nodiscard]] std::byte* whole(std::size_t tensor);
  };
  void begin(std::span<const DividedTensor> tensors, Started& started) const;
  // A replica's part of a whole tensor.
  [[nodiscard]] std::span<std::byte> part(Started& of, std::size_t tensor, int replica) const;
  [[nodiscard]] Slice slice(const DividedTensor& tensor, int replica) const;
  void send(int replica, int tag, std::span<const std::byte> values, Tickets& tickets);
  void receive(int replica, int tag, std::span<std::byte> values, Tickets& tickets);
  void wait(Tickets& tickets);
  void keep(const DividedTensor& tensor, std::span<const float> sum);

  std::vector<int> members_;
  int own_ = 0;  // which of them this process is
  Processes& processes_;
  Backend& backend_;
  Started gather_, sum_;
  Into into_ = Into::overwritten;
  std::vector<float> terms_;  // of each tensor every replica's term of the own slice
};

}  // namespace weir
