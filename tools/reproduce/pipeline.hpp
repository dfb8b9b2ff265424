// One step of a published schedule with given stage costs, and what the papers print of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "costmodel/table/cost_table.hpp"
#include "plan/program/blocking.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "traces/metrics.hpp"

namespace weir {

// Throws InputError with the generator's reason.
[[nodiscard]] Schedule schedule_or_refusal(ScheduleOrReason made);
[[nodiscard]] Schedule named_schedule(const std::string& name, int ranks, int chunks,
                                      int microbatches);

struct PipelineOptions {
  bool recompute = false;  // every stage, placed early (GPipe)
  TransferMode transfers = TransferMode::buffered;
  // An overlapped pair F&B is one kernel mix: it starts when both inputs are there, takes F + B,
  // and both results leave at its end (DualPipe).
  bool fuse_overlapped = false;
};
// No optimizer, unlimited receive slots: closed forms and papers assume both.
[[nodiscard]] StepMetrics time_pipeline(const Schedule& schedule, const CostTable& costs,
                                        const PipelineOptions& options = {});

// The same for every stage; B = I + W, R = F; `latency` is a crossing's.
struct EqualStage {
  Seconds f{0}, i{0}, w{0}, latency{0};
};
[[nodiscard]] CostTable equal_stages(const Schedule& schedule, const EqualStage& stage);

// Transfers that are waited for: the latency of a crossing moves from the edge into the action
// before it.
void occupy_senders(CostTable& costs);

}  // namespace weir
