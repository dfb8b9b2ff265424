// Prices a program, and runs it by the event engine.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast/priced_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <variant>

#include "plan/job/placement.hpp"
#include "plan/program/deadlock.hpp"
#include "plan/program/repeat.hpp"
#include "plan/words/error.hpp"

namespace weir {

PricedProgram::PricedProgram(const ResolvedPlan& resolved, const Program& of,
                             const LayerCosts& known, const Cluster& cluster)
    : program(of),
      priced(cost_table(resolved, known, cluster)),
      costs(expand(program, priced.table)),
      contention(contention_of(program, resolved.plan, known.costs(), cluster)) {}

Program blocking_program(const ResolvedPlan& loaded, TransferMode transfers) {
  // Between two actions a rank posts one send and one receive: there is no order for more.
  if (!loaded.lowering.skips.empty()) {
    throw InputError(
        "plan", "skips",
        fmt::format("direct: expected buffered transfers, not {}", to_string(transfers)));
  }
  // Its authors' order of transfers around shards' passes is not known here.
  if (loaded.schedule.shape.shards() > 0) {
    throw InputError("plan", "schedule",
                     fmt::format("{} divides the vocabulary: expected buffered transfers, not {}",
                                 loaded.schedule.name, to_string(transfers)));
  }
  LoweringOptions unlimited = loaded.lowering;
  unlimited.slots = 0;
  Program program = block_transfers(lower(loaded.schedule, unlimited), transfers);
  if (find_cycle(program)) {
    throw NoFeasiblePlan(fmt::format("deadlocks with {} transfers:\n{}", to_string(transfers),
                                     describe_deadlock(program)));
  }
  return program;
}

Timing timed_step(const PricedProgram& run) {
  auto outcome = simulate(run.program, run.costs, run.contention);
  // Programs were shown to have no cycle (docs/design.md 6), so one that is stuck is a bug.
  if (const auto* stuck = std::get_if<Stuck>(&outcome)) throw std::logic_error(stuck->report);
  return std::get<Timing>(std::move(outcome));
}

Seconds mean_step(const PricedProgram& run) {
  constexpr int kSteps = 8;
  const auto makespan = [&](int steps) {
    const Program repeated = repeat(run.program, steps);
    const auto timed = simulate(repeated, expand(repeated, run.priced.table), run.contention);
    return to_seconds(std::get<Timing>(timed).makespan);
  };
  // The first 8 steps hold the fill and the drain, which are the same in 16: the difference is 8
  // steady steps.
  return (makespan(2 * kSteps) - makespan(kSteps)) / kSteps;
}

Contention contention_of(const Program& program, const Plan& plan, const Costs& costs,
                         const Cluster& cluster) {
  Contention contention =
      cluster.kinds() > 1
          ? shared_node_links(program, cluster, Placement(plan, cluster), plan.tp * plan.cp)
          : shared_node_links(program, cluster, plan.tp * plan.cp);
  contention.compute_slowdown = costs.overlap.compute;
  contention.transfer_slowdown = costs.overlap.transfer;
  if (stands_on_builtin(costs.basis) || plan.devices() <= cluster.devices()) return contention;
  // A rank is `each` devices, of which there are so many whole sets; what is left over speeds them
  // up, and where there is less than one set it is the slower.
  const int each = plan.devices() / plan.pp;
  const int sets = std::max(1, cluster.devices() / each);
  contention.device_speed = static_cast<double>(cluster.devices()) / each / sets;
  // Neighbouring ranks share a set, and all sets have as many ranks, give or take one.
  for (int rank = 0; rank < plan.pp; ++rank)
    contention.device_of_rank.push_back(
        static_cast<std::int32_t>(std::int64_t{rank} * sets / plan.pp));
  return contention;
}

}  // namespace weir
