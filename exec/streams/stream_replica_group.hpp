// The replicas that divide gradients and weights (ZeRO-2 and 3) where steps are launched: gathers
// and sums are put on the transport's stream of gradients, behind what makes their terms and before
// what reads their results, and the stage's kernels go on meanwhile.
//
//   compute     F of layer 0 ──────┐ F of layer 1 ─────┐
//   gradients   gather of layer 1 ─┘ gather of layer 2 ┘
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "exec/device/backend.hpp"
#include "exec/streams/slice_sums.hpp"
#include "exec/streams/stream_transport.hpp"
#include "exec/training/replica_group.hpp"

namespace weir {

class StreamReplicaGroup : public ReplicaGroup {
 public:
  // `own`: which of the replicas this is. The backend has a stream and outlives it.
  StreamReplicaGroup(int replicas, int own, Backend& backend)
      : replicas_(replicas), own_(own), backend_(backend) {}

  // Before the first step. Takes room for a piece of each other replica's gradients from the arena,
  // for the whole run; `most_summed`: numbers of one call of start_sum that a replica sums. The
  // transport outlives all steps.
  void connect(StreamTransport& transport, Arena& arena, std::int64_t most_summed);

  void start_gather(std::span<const DividedTensor> tensors) override;
  void finish_gather() override;
  void start_sum(std::span<const DividedTensor> tensors, Into own) override;
  void finish_sum() override;

 private:
  [[nodiscard]] Tensor own_part(const DividedTensor& tensor) const;  // of what is whole
  void keep(std::span<const DividedTensor> tensors, Into own);

  int replicas_, own_;
  Backend& backend_;
  StreamTransport* transport_ = nullptr;
  std::optional<SliceSums> sums_;
  // Recorded anew by every call, and waited for before the next one records it: a gather may begin,
  // and is there; terms are made, and are summed.
  Event before_, gathered_, made_, summed_;
};

}  // namespace weir
