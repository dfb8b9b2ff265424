// Reads measured steps: by stage and kind of action the typical time against the forecast, the gaps
// before actions, and which of them ran beside a transfer.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/fit/observations.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "costmodel/table/neighbours.hpp"
#include "costmodel/table/plan_costs.hpp"
#include "plan/program/program.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

// The share of an interval during which any transfer of its rank was under way; transfers ascend in
// start.
double share_beside(const Span& span,
                    const std::vector<std::pair<Nanoseconds, Nanoseconds>>& transfers) {
  Nanoseconds covered{0}, until = span.start;
  for (const auto& [start, end] : transfers) {
    if (start >= span.end) break;
    // Transfers may overlap: what one has covered is not counted again.
    const Nanoseconds from = std::max(start, until), to = std::min(end, span.end);
    if (to <= from) continue;
    covered += to - from;
    until = to;
  }
  return span.duration().count() > 0
             ? static_cast<double>(covered.count()) / static_cast<double>(span.duration().count())
             : 0;
}

// What a run shows of the actions of one kind of one stage.
struct Seen {
  std::vector<double> durations, beside;  // s, and the share beside a transfer, in the same order
  std::vector<double> step_means;         // s
  double of_step = 0;                     // sum in the step that is read
  int in_step = 0;

  void add(double duration, double share) {
    durations.push_back(duration);
    beside.push_back(share);
    of_step += duration;
    ++in_step;
  }
  void end_step() {
    if (in_step > 0) step_means.push_back(of_step / in_step);
    of_step = in_step = 0;
  }
};

void note_scatter(ActionKind kind, const Seen& run, double typical, Observations& seen) {
  constexpr double kHardly = 0.05;
  std::vector<double> alone;
  for (std::size_t i = 0; i < run.durations.size(); ++i) {
    seen.scatter[kind].push_back(run.durations[i] / typical);
    if (run.beside[i] < kHardly) alone.push_back(run.durations[i]);
  }
  if (alone.empty()) return;
  // What ran beside a transfer is held against the same kind's runs without one.
  const double free = median(std::move(alone));
  // 1 - free / duration: the share of the time that the transfer cost.
  for (std::size_t i = 0; i < run.durations.size(); ++i) {
    if (run.beside[i] >= kHardly && run.durations[i] > 0)
      seen.overlapped.emplace_back(run.beside[i], 1 - free / run.durations[i]);
  }
}

void add_run(std::size_t index, const CalibrationRun& run, const Costs& base,
             const Cluster& cluster, Observations& seen) {
  const Program& program = run.plan->program;
  const CostTableResult table = cost_table(*run.plan, base, cluster);
  // Only what grows with the samples: the rest of a time is fixed.
  Costs growing = base;
  growing.fixed = 0;
  const CostTableResult without = cost_table(*run.plan, growing, cluster);
  std::map<std::pair<std::int32_t, ActionKind>, Seen> kinds;
  for (std::size_t step = 0; step < run.measured->steps.size(); ++step) {
    const auto spans = run.measured->of_step(static_cast<std::int32_t>(step));
    Nanoseconds last{0};
    Indexed<Rank, std::vector<std::pair<Nanoseconds, Nanoseconds>>> transfers(
        program.shape().ranks);
    for (const Span& span : spans) {
      if (span.lane == LaneKind::send || span.lane == LaneKind::receive)
        transfers[span.rank].emplace_back(span.start, span.end);
    }
    for (auto& of_rank : transfers) std::sort(of_rank.begin(), of_rank.end());
    for (const Rank rank : program.ranks()) {
      for (const OperationId id : program.compute_lane(rank).operations()) {
        const Span& span = spans[id];
        // A backward that is spared its rebuilding takes less than the table's, which has it.
        const bool shorter = is_backward(span.action.kind) && program.spared(span.action) &&
                             table.table.stages[span.action.stage.position()].rebuild.count() > 0;
        if (!shorter) {
          kinds[{span.action.stage.value, span.action.kind}].add(
              to_seconds(span.duration()).count(), share_beside(span, transfers[rank]));
        }
        last = std::max(last, span.end);
        const OperationId previous = program.previous(id);
        if (previous == kNoOperation) continue;
        Nanoseconds ready = spans[previous].end;
        for (const Dependency& d : program.predecessors(id)) {
          // The gap is from the last of what it waited for, so waiting itself is no overhead.
          ready = std::max(ready, spans[d.before].end);
        }
        seen.host_gap_s.push_back(to_seconds(std::max(span.start - ready, Nanoseconds(0))).count());
      }
    }
    seen.step_gap_s.push_back(to_seconds(run.measured->steps[step].end - last).count());
    for (auto& [key, of_kind] : kinds) of_kind.end_step();
  }
  for (const auto& [key, of_kind] : kinds) {
    const auto predicted = [&, stage = static_cast<std::size_t>(key.first),
                            kind = key.second](const CostTableResult& by) {
      return to_seconds(by.table.stages[stage][kind]).count();
    };
    const double expected = predicted(table);
    // A step is a sum of its actions, so what counts of them is their mean; of steps, the median.
    const double measured = median(of_kind.step_means);
    if (measured > 0) note_scatter(key.second, of_kind, measured, seen);
    if (expected <= 0 || measured <= 0) continue;
    const Plan& plan = run.plan->plan;
    const double a_step = static_cast<double>(of_kind.durations.size()) /
                          static_cast<double>(run.measured->steps.size());
    seen.kinds.push_back({index, key.second, quiet_share(plan, base), plan.micro_batch_size,
                          std::log(measured / expected), 1 - predicted(without) / expected,
                          Seconds(measured * a_step)});
  }
}

}  // namespace

Observations observe(const Costs& base, std::span<const CalibrationRun> runs,
                     const Cluster& cluster) {
  Observations seen;
  for (std::size_t i = 0; i < runs.size(); ++i) add_run(i, runs[i], base, cluster, seen);
  return seen;
}

}  // namespace weir
