// A pipeline of equal stages, timed for the cases.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/pipeline.hpp"

#include <stdexcept>
#include <utility>
#include <variant>

#include "plan/program/lower.hpp"
#include "plan/words/error.hpp"
#include "sim/engine/event_engine.hpp"

namespace weir {

namespace {

// Each pair's first operation takes both durations and waits for what the second waits for, besides
// itself.
Program fuse_pairs(const Schedule& schedule, const Program& program, OperationCosts& costs) {
  // A program cannot be changed: its dependencies are copied, changed, and made into another.
  PerOperation<std::vector<Dependency>> known(program.size());
  for (const OperationId id : program.ids()) {
    const auto before = program.predecessors(id);
    known[id].assign(before.begin(), before.end());
  }
  for (const Rank rank : program.ranks()) {
    for (const std::int32_t position : schedule.overlapped[rank]) {
      const OperationId first = program.compute_lane(rank).first + position, second = first + 1;
      // One block that overlaps both: it takes the sum and ends when both have.
      costs.duration_ns[first] += costs.duration_ns[second];
      costs.duration_ns[second] = 0;
      for (const Dependency& d : known[second]) {
        // Not on itself: the pair has become one operation.
        if (d.before != first) known[first].push_back(d);
      }
    }
  }
  Program::Parts parts = program.parts();
  parts.dependencies = {};
  for (const auto& of_one : known) {
    parts.dependencies.next();
    for (const Dependency& d : of_one) parts.dependencies.add(d.before, d.kind);
  }
  return Program(std::move(parts));
}

}  // namespace

Schedule schedule_or_refusal(ScheduleOrReason made) {
  if (const auto* reason = std::get_if<std::string>(&made))
    throw InputError("published tables", "", *reason);
  return std::get<Schedule>(std::move(made));
}

Schedule named_schedule(const std::string& name, int ranks, int chunks, int microbatches) {
  return schedule_or_refusal(make_schedule(name, {ranks, chunks, microbatches}));
}

StepMetrics time_pipeline(const Schedule& schedule, const CostTable& costs,
                          const PipelineOptions& options) {
  LoweringOptions lowering;
  lowering.slots = 0;
  lowering.optimizer = false;
  if (options.recompute)
    lowering.recompute.assign(static_cast<std::size_t>(schedule.shape.total_stages()), true);
  Program program = block_transfers(lower(schedule, lowering), options.transfers);
  OperationCosts durations = expand(program, costs);
  if (options.fuse_overlapped && !schedule.overlapped.empty())
    program = fuse_pairs(schedule, program, durations);
  auto outcome = simulate(program, durations);
  if (const auto* stuck = std::get_if<Stuck>(&outcome)) throw std::logic_error(stuck->report);
  return step_metrics(program, to_trace(program, std::get<Timing>(outcome)));
}

CostTable equal_stages(const Schedule& schedule, const EqualStage& stage) {
  StageCost cost;
  cost.f = to_nanoseconds(stage.f);
  cost.i = to_nanoseconds(stage.i);
  cost.w = to_nanoseconds(stage.w);
  cost.b = cost.i + cost.w;
  cost.r = cost.f;
  CostTable table;
  const auto stages = static_cast<std::size_t>(schedule.shape.total_stages());
  table.stages.assign(stages, cost);
  table.forward_messages.assign(stages, {Nanoseconds(0), to_nanoseconds(stage.latency)});
  table.backward_messages = table.forward_messages;
  return table;
}

void occupy_senders(CostTable& costs) {
  for (std::size_t s = 0; s < costs.stages.size(); ++s) {
    if (s + 1 < costs.stages.size()) costs.stages[s].f += costs.forward_messages[s].latency;
    if (s > 0) costs.stages[s].b += costs.backward_messages[s].latency;
    costs.forward_messages[s].latency = costs.backward_messages[s].latency = Nanoseconds(0);
  }
}

}  // namespace weir
