// Tensor-parallel devices as processes whose tensors are in their devices' memory: messages between
// them go through the host's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "exec/device/backend.hpp"
#include "exec/device/tensor_group.hpp"
#include "exec/processes/processes.hpp"

namespace weir {

class ProcessTensorLinks : public TensorLinks {
 public:
  // `members`: the processes of the group by place. The others outlive it.
  ProcessTensorLinks(std::vector<int> members, Processes& processes, Backend& backend)
      : members_(std::move(members)), processes_(processes), backend_(backend) {}

  void exchange(std::span<const Part> sends, std::span<const Part> receives) override;

 private:
  std::vector<int> members_;
  Processes& processes_;
  Backend& backend_;
  // Messages are of this memory, which stays when a failure has freed the caller's.
  std::vector<std::vector<std::byte>> sent_, received_;
};

}  // namespace weir
