// The replicas that divide a stage's gradients and weights among them (ZeRO-2 and 3), as a stage
// sees them: of a tensor each owns its slice (exec/training/replica_share). Between processes that
// wait, exec/processes/process_replica_group; between those that launch,
// exec/streams/stream_replica_group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "exec/device/arena.hpp"

namespace weir {

// In the backend's memory.
struct DividedTensor {
  Tensor own;    // this replica's slice
  Tensor whole;  // all slices, while they are needed
  std::int64_t elements = 0;
  std::int64_t element_bytes = 4;
  std::int64_t padding = 0;  // elements behind the last: zeros in what is gathered
};

class ReplicaGroup {
 public:
  virtual ~ReplicaGroup() = default;

  // Called by all replicas with the same tensors, in the same order of calls. What has been started
  // goes on until it is finished, beside other work; there is one gather and one sum at a time.
  // An all-gather: every replica's slices come into the whole tensors.
  virtual void start_gather(std::span<const DividedTensor> tensors) = 0;
  virtual void finish_gather() = 0;
  // A reduce-scatter in fp32: the sum of the replicas' terms, in the order of replicas, is put into
  // `own`, or added to what is there.
  enum class Into : std::uint8_t { overwritten, added };
  virtual void start_sum(std::span<const DividedTensor> tensors, Into own) = 0;
  virtual void finish_sum() = 0;
};

}  // namespace weir
