// Replicas as processes: a gather and a reduce-scatter are messages between all of them, a slice
// each, so each sends (D - 1) / D of the numbers, as a ring does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "exec/processes/processes.hpp"
#include "exec/training/replica_group.hpp"
#include "exec/training/replica_share.hpp"

namespace weir {

class ProcessReplicaGroup : public ReplicaGroup {
 public:
  // `members`: the processes of the group by replica, this one among them. `processes` outlives it.
  ProcessReplicaGroup(std::vector<int> members, Processes& processes);

  void start_gather(std::span<const DividedTensor> tensors) override;
  void finish_gather() override;
  void start_sum(std::span<const DividedTensor> tensors) override;
  void finish_sum(Into own) override;

 private:
  using Tickets = std::vector<Processes::Ticket>;
  [[nodiscard]] Slice slice(const DividedTensor& tensor, int replica) const;
  void send(int replica, int tag, std::span<const float> values, Tickets& tickets);
  void receive(int replica, int tag, std::span<float> values, Tickets& tickets);
  void wait(Tickets& tickets);

  std::vector<int> members_;
  int own_ = 0;  // which of them this process is
  Processes& processes_;
  Tickets gathers_, sums_;
  std::vector<DividedTensor> summed_;  // of the sum that was started
  std::vector<float> terms_;           // of each tensor every replica's term of the own slice
};

}  // namespace weir
