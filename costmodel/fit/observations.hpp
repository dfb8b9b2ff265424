// What measured runs show of a forecast's parts: how long actions took against what was said, what
// lay between them, how they scattered, and what transfers beside them cost. `calibrate` fits it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "plan/job/resolve.hpp"
#include "plan/words/per_kind.hpp"
#include "traces/trace.hpp"

namespace weir {

struct CalibrationRun {
  const ResolvedPlan* plan = nullptr;
  const Trace* measured = nullptr;
};

// The actions of one kind of one stage of one plan.
struct KindObservation {
  std::size_t run = 0;
  ActionKind kind = ActionKind::F;
  double quiet = 0;          // quiet_share: of the time, none works beside it
  int micro_batch_size = 1;  // samples
  double log_ratio = 0;  // log(measured / predicted); measured: mean of a step, median over steps
  double fixed = 0;      // share of what is predicted that any micro-batch size takes
  Seconds time{0};       // measured, all of a step's: an embedding that has a stage of its own
                         // says nothing of the blocks' thousand times longer passes
};

struct Observations {
  std::vector<KindObservation> kinds;
  std::vector<double> host_gap_s;  // from when all an action waits for was there to its start
  std::vector<double> step_gap_s;  // from the last action's end to the step's
  PerKind<std::vector<double>>
      scatter;  // duration / what is measured of the same stage's actions of this kind
  std::vector<std::pair<double, double>>
      overlapped;  // share of an action beside a transfer, and 1 - free / its time
};

[[nodiscard]] Observations observe(const Costs& base, std::span<const CalibrationRun> runs,
                                   const Cluster& cluster);

}  // namespace weir
