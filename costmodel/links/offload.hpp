// What it takes to keep the optimizer's state in the host's memory and to update it there
// (ZeRO-Offload: Ren et al., USENIX ATC 2021; Megatron-Core's HybridDeviceOptimizer), and to let
// what blocks keep for their backward wait there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "plan/job/cluster.hpp"
#include "plan/job/plan.hpp"
#include "plan/job/stage_part.hpp"
#include "plan/model/model_part.hpp"
#include "plan/words/units.hpp"

namespace weir {

// Of what is trained in these layers, the numbers that are uses of a weight which one of them has
// already: a device that holds all of them has its state once. No layer is in two of the ranges.
[[nodiscard]] std::int64_t repeated_numbers(const ModelPart& part,
                                            std::span<const LayerRange> held);

// The numbers of a stage that the host updates for one device: its share of what is trained, less
// those that are `repeated`.
[[nodiscard]] double offloaded_numbers(const StagePart& stage, const Plan& plan,
                                       std::int64_t repeated);

// Once a step, of one device, one after the other: nothing of it is hidden.
struct OffloadedUpdate {
  Seconds gradients{0};  // to the host
  Seconds update{0};     // by the processors that the device's process has there
  Seconds weights{0};    // back
  [[nodiscard]] Seconds all() const { return gradients + update + weights; }
};

// Of n numbers that the host updates for the device: gradients in `gradient` bytes each go up,
// weights in the number format come back (NVIDIA/Megatron-LM@d98e8a64ddf3,
// core/optimizer/cpu_offloading/hybrid_optimizer.py: step), each in latency + bytes / bandwidth of
// the host's link; the host reads weight, what the optimizer keeps and gradient in fp32 and writes
// the first two and what goes back, of Adam 28 bytes and those, at the rate that such a process
// reaches.
// Precondition: the cluster has a host.
[[nodiscard]] OffloadedUpdate offloaded_update(double numbers, double gradient, const Plan& plan,
                                               const Cluster& cluster);

// What the host holds of so many numbers: of each in fp32 master weight, gradient and what the
// optimizer keeps, of Adam 16 bytes. Of Muon's matrices two moments are counted, where it has one:
// no host's optimizer has it.
[[nodiscard]] Bytes host_bytes(double numbers, const Optimizer& optimizer);

// What a block keeps of a micro-batch from its forward to its backward: all that it saves and that
// no re-materialisation makes again, its input among it; of one that is `rebuilt` the input alone.
// 0 of other layers, which are never offloaded, and of stages that are rebuilt as a whole.
[[nodiscard]] std::int64_t kept_bytes(const LayerPart& layer, const Plan& plan, bool rebuilt);
// Of that, what the plan's host holds, and how long its copies to there, or back, take: beside the
// layer's own kernels and exchanges, so that the longer of the two counts
// (NVIDIA/Megatron-LM@d98e8a64ddf3, its guide to fine-grained activation offloading: streams of
// their own). Precondition of the second: the cluster has a host.
[[nodiscard]] std::int64_t offloaded_bytes(const LayerPart& layer, const Plan& plan, bool rebuilt);
[[nodiscard]] Seconds offloading_time(std::int64_t bytes, const Cluster& cluster);

// Why the cluster cannot keep it: it says nothing of its host; nullopt: it does, or nothing is
// kept.
[[nodiscard]] std::optional<std::string> lacks_host(const Plan& plan, const Cluster& cluster);

}  // namespace weir
