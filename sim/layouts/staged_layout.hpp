// A network's layers cut into the stages of a pipeline, with a layout inside each: whatever the
// layout is. Stages follow each other on as many devices each, all laid out alike; what a stage
// makes goes from each device to the one at its place in the next stage.
//
// Times are those that layouts are compared by (costmodel/layers/network_math): products at the
// device's peak, exchanges by the collectives' formulas, nothing of a pass beside another, and once
// a step the reductions, when a stage's last micro-batch is done. Schedule and messages are timed
// by the event engine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/layers/network_math.hpp"
#include "plan/job/cluster.hpp"
#include "plan/layout/network.hpp"
#include "plan/words/units.hpp"

namespace weir {

struct StagedJob {
  NetworkJob job;  // its micro_batches: of a step, one after the other
  int stages = 1;
  std::string schedule = "1f1b";  // of one stage a rank
};

struct LayoutStage {
  int first = 0, layers = 0;  // of the network's, each repetition one
  Seconds passes[3] = {};     // F, I and W of one micro-batch, exchanges included
  Seconds exchanges{0};       // of these
  Seconds step{0};            // once a step: gradients and new weights, with what two stages tie
  Bytes message{0};           // of a micro-batch, a device's to the next stage
  Bytes state{0}, kept{0};    // kept: of one micro-batch
  int in_flight = 1;          // micro-batches of which it keeps that at once
  [[nodiscard]] Bytes memory() const { return state + kept * in_flight; }
};

struct StagedLayout {
  std::vector<LayoutStage> stages;
  Seconds step_time{0};
  double bubble_fraction = 0;
  [[nodiscard]] Bytes memory() const;  // of the device that holds most
};

// Why a network cannot be cut into so many stages by this schedule, in words; nothing: it can. Each
// layer reads the one before it alone, and a tied weight has one owner.
[[nodiscard]] std::optional<std::string> not_staged(const layout::Network& network,
                                                    const StagedJob& job);

// Cut where the slowest stage is fastest. Precondition: not_staged says nothing, the layout is
// legal, and the cluster has stages times the mesh's devices.
[[nodiscard]] StagedLayout staged_layout(const layout::Network& network,
                                         const layout::NetworkLayout& layout, const StagedJob& job,
                                         const Cluster& cluster);

}  // namespace weir
