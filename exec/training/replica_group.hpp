// The replicas that divide a stage's gradients and weights among them (ZeRO-2 and 3), as a stage
// sees them: of a tensor each owns its slice (exec/training/replica_share).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace weir {

// In the host's memory.
struct DividedTensor {
  float* own = nullptr;    // this replica's slice
  float* whole = nullptr;  // all slices, while they are needed
  std::int64_t elements = 0;
};

class ReplicaGroup {
 public:
  virtual ~ReplicaGroup() = default;

  // Called by all replicas with the same tensors, in the same order of calls. What has been started
  // goes on until it is finished, beside other work; there is one gather and one sum at a time.
  // An all-gather: every replica's slices come into the whole tensors.
  virtual void start_gather(std::span<const DividedTensor> tensors) = 0;
  virtual void finish_gather() = 0;
  // A reduce-scatter: the sum of the replicas' terms, in the order of replicas, is put into `own`,
  // or added to what is there.
  enum class Into : std::uint8_t { overwritten, added };
  virtual void start_sum(std::span<const DividedTensor> tensors) = 0;
  virtual void finish_sum(Into own) = 0;
};

}  // namespace weir
