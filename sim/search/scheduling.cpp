// Makes the problem of a plan, and lets forecasts decide.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/scheduling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "costmodel/memory/memory_rules.hpp"
#include "costmodel/memory/stage_memory.hpp"
#include "costmodel/table/stage_costs.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/synthesis/bound.hpp"

namespace weir {
namespace {

std::int64_t length_of(const MessageCost& message) {
  return (message.occupancy + message.latency).count();
}

// What each stage keeps of a micro-batch, and what that leaves of the ranks' memory.
void set_room(SynthesisProblem& problem, const Plan& plan, const LayerCosts& known,
              const Cluster& cluster, const std::vector<StagePart>& stages, Bytes limit) {
  const ModelPart& part = *known.part();
  const bool remat =
      plan.recompute.mode == RecomputeMode::full || plan.recompute.mode == RecomputeMode::stage;
  const std::int64_t slots = plan.slots == 0 ? 2 : plan.slots;
  std::vector<std::int64_t> held(problem.room.size(), 0), beside(problem.room.size(), 0);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageMemory stage(plan, part, stages[s], cluster.device.allocator, cluster.stack);
    const Footprint forward = stage.of(ActionKind::F, remat);
    const std::int64_t kept = total_bytes(forward.net) + stage.input_bytes() - stage.output_bytes();
    // At least 1, because the room is divided by it.
    problem.kept[s] = std::max<std::int64_t>(1, kept);
    const auto rank = problem.shape.rank_of(Stage{static_cast<std::int32_t>(s)}).position();
    held[rank] +=
        total_bytes(stage.parameters()) + slots * (stage.input_bytes() + stage.output_bytes());
    beside[rank] = std::max({beside[rank], total_bytes(forward.worst) - kept,
                             total_bytes(stage.of(ActionKind::B, remat).worst)});
  }
  // Without a limit the room stays without bounds.
  if (limit.count() == 0) return;
  const Bytes overhead = memory_rules(cluster, part).process_overhead;
  const std::vector<Bytes> limits = rank_limits(plan, cluster, limit);
  for (std::size_t rank = 0; rank < problem.room.size(); ++rank)
    problem.room[rank] = (limits[rank] - overhead).count() - held[rank] - beside[rank];
}

class Finalists {
 public:
  Finalists(const Plan& plan, const LayerCosts& known, const Cluster& cluster,
            const SynthesisProblem& problem, Bytes limit)
      : plan_(plan), known_(known), cluster_(cluster), problem_(problem), limit_(limit) {}

  // By how much a rank's memory is over the limit; below 0: by how much all are under it.
  Bytes consider(Schedule schedule) {
    Plan plan = plan_;
    plan.slots = fewest_slots(schedule, plan_.slots);
    const ResolvedPlan resolved = derive(plan, known_.model(), schedule, known_.part());
    Forecast f = forecast(resolved, known_, cluster_, {.detail = ForecastDetail::order}).forecast;
    if (limit_.count() > 0) f.memory_limit = limit_;
    ++compared_;
    const bool fits_better = !best_ || f.fits() < best_->fits;
    if (fits_better || (f.fits() == best_->fits && f.step_time < best_->step)) {
      best_ = ChosenSchedule{std::move(schedule), plan.slots, f.step_time, f.fits(), 0, 0};
    }
    Bytes over = f.peak_memory() - limit_;
    for (std::size_t r = 0; r < f.rank_memory_limits.size(); ++r)
      over = std::max(over, f.memory[r].peak - std::min(limit_, f.rank_memory_limits[r]));
    return over;
  }

  [[nodiscard]] std::optional<ChosenSchedule> best(std::int64_t bound_ns) {
    if (!best_) return std::nullopt;
    best_->compared = compared_;
    const auto times = time_words(problem_, best_->schedule.order);
    if (times && bound_ns > 0) {
      const double ratio = static_cast<double>(times->makespan_ns) / static_cast<double>(bound_ns);
      best_->gap = std::max(0.0, ratio - 1);
    }
    return std::move(best_);
  }

 private:
  const Plan& plan_;
  const LayerCosts& known_;
  const Cluster& cluster_;
  const SynthesisProblem& problem_;
  Bytes limit_;
  std::optional<ChosenSchedule> best_;
  int compared_ = 0;
};

}  // namespace

SynthesisProblem synthesis_problem(const Plan& plan, const LayerCosts& known,
                                   const Cluster& cluster, const ScheduleShape& shape,
                                   Bytes limit) {
  const auto stages = stage_parts(*known.part(), plan.boundaries, shape);
  const StageCosts costs(plan, known, cluster);
  const CostTable table = costs.table(shape, stages, {});
  SynthesisProblem problem;
  problem.shape = shape;
  const bool apart = plan.recompute.mode == RecomputeMode::stage;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageCost& cost = table.stages[s];
    const Nanoseconds host = table.host_overhead;
    // An R goes before its I on the same lane: here it is a part of I.
    const Nanoseconds rebuilt = apart ? cost.r + host : Nanoseconds(0);
    problem.stages.push_back(
        {(cost.f + host).count(), (cost.i + host + rebuilt).count(), (cost.w + host).count()});
    problem.forward_ns.push_back(length_of(table.forward_messages[s]));
    problem.backward_ns.push_back(length_of(table.backward_messages[s]));
  }
  problem.kept.assign(stages.size(), 1);
  problem.room.assign(at(shape.ranks), std::numeric_limits<std::int64_t>::max() / 2);
  set_room(problem, plan, known, cluster, stages, limit);
  return problem;
}

std::optional<ChosenSchedule> shortest_schedule(const Plan& plan, const LayerCosts& known,
                                                const Cluster& cluster, const ScheduleShape& shape,
                                                Bytes limit, const SynthesisEffort& effort) {
  SynthesisProblem problem = synthesis_problem(plan, known, cluster, shape, limit);
  Finalists finalists(plan, known, cluster, problem, limit);
  for (const Generator& generator : generators()) {
    const auto made = generator.make({shape.ranks, shape.stages / shape.ranks, plan.microbatches});
    const auto* schedule = std::get_if<Schedule>(&made);
    if (schedule != nullptr && schedule->shape == shape) finalists.consider(*schedule);
  }
  std::int64_t bound_ns = synthesis_bound_ns(problem);
  SynthesisProblem tighter = problem;
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto found = synthesise(tighter, effort);
    if (!found) break;
    // A tighter problem's bound says nothing of the plan's.
    if (attempt == 0) bound_ns = found->lower_bound_ns;
    const Bytes over = finalists.consider(std::move(found->schedule));
    if (limit.count() == 0 || over.count() <= 0) break;
    // The forecast counts slots and reserves too: the next problem has less room by what they were
    // over.
    for (std::int64_t& room : tighter.room) room -= over.count();
  }
  return finalists.best(bound_ns);
}

std::string describe(const ChosenSchedule& chosen) {
  const std::string how =
      chosen.gap == 0 ? "optimal"
                      : fmt::format("at most {:.1f} % above the best order", 100 * chosen.gap);
  std::string text = fmt::format("schedule: {}, the shortest of {} forecast, {}",
                                 chosen.schedule.name, chosen.compared, how);
  if (chosen.fits == Fits::no) text += "; it does not fit";
  if (chosen.fits == Fits::maybe) text += "; it may fit";
  return text;
}

}  // namespace weir
