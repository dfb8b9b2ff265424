// Asks sim for what is the best.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/plan/plan_choices.hpp"

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "costmodel/table/layer_costs.hpp"
#include "plan/job/resolve.hpp"
#include "plan/job/stack.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "sim/partition/balanced.hpp"
#include "sim/partition/shipped.hpp"
#include "sim/recompute/automatic.hpp"
#include "sim/search/partitions/balance.hpp"
#include "sim/search/partitions/kept_together.hpp"
#include "sim/search/partitions/layer_times.hpp"
#include "sim/search/partitions/partitioning.hpp"
#include "sim/search/scheduling.hpp"

namespace weir::app {
namespace {

// Whose stages hold numbers of parameters as equal as can be.
std::vector<int> by_parameters(const LayerCosts& known, int stages) {
  std::vector<std::int64_t> parameters;
  for (int l = 0; l < known.part()->size(); ++l)
    parameters.push_back(known.part()->layer(l).parameters);
  return best_boundaries(parameters, stages);
}

std::vector<Schedule> placements(const Plan& plan) {
  std::vector<Schedule> all;
  const auto add = [&](const char* name) {
    auto made = make_schedule(name, {plan.pp, plan.vpp, plan.microbatches});
    if (auto* schedule = std::get_if<Schedule>(&made)) all.push_back(std::move(*schedule));
  };
  if (plan.vpp > 2) throw UsageError("--schedule auto: expected one or two stages a rank (--vpp)");
  add(plan.vpp == 1 ? "1f1b" : "looped-bfs");
  if (plan.vpp == 2) add("zb-v");
  return all;
}

}  // namespace

std::vector<std::string> partition_words() {
  return {"optimal", "minimax", "uniform", "parameters", "block"};
}

std::vector<int> PlanChooser::boundaries(const std::string& word, const Plan& plan,
                                         const Schedule& schedule, bool bounded) const {
  const int stages = plan.stages();
  const auto layers = static_cast<int>(model.layers.size());
  // More stages than layers: where the stack allows it, its own rule says which stay empty.
  if (stages > layers && cluster.stack.empty_stages)
    return stage_boundaries(cluster.stack, model, stages).value();
  Cluster machine = cluster;
  // Without a bound: what does not fit will be rebuilt, and is not for the partition to avoid.
  if (!bounded) machine.device.memory = Bytes(0);
  const LayerCosts known(plan, model, costs, machine.stack);
  if (stages > layers) return Balance(known, machine).boundaries(plan);
  // Whatever the word, layers that the trainer keeps on one stage stay there.
  return KeptTogether(model, machine.stack).kept(by_word(word, plan, schedule, known, machine));
}

std::vector<int> PlanChooser::by_word(const std::string& word, const Plan& plan,
                                      const Schedule& schedule, const LayerCosts& known,
                                      const Cluster& machine) const {
  const int stages = plan.stages();
  if (word == "uniform") return uniform_boundaries(static_cast<int>(model.layers.size()), stages);
  if (word == "parameters") return by_parameters(known, stages);
  if (word == "block") return block_boundaries(layer_times(plan, known, machine), stages);
  if (word == "minimax") {
    MinimaxPartition found = minimax_partition(partition_problem(plan, known, machine, schedule));
    if (found.boundaries.empty())
      throw NoFeasiblePlan("--partition minimax: no partition keeps to the devices' memory");
    remarks.push_back(describe(found));
    return std::move(found.boundaries);
  }
  ChosenPartition chosen = shortest_step_partition(plan, known, machine, schedule);
  if (stages > 1) remarks.push_back(describe(chosen));
  return std::move(chosen.boundaries);
}

Schedule PlanChooser::schedule(const std::string& partition, bool rebuild, Plan& plan) const {
  const Bytes limit = memory_limit.value_or(cluster.largest_memory());
  const LayerCosts known(plan, model, costs, cluster.stack);
  std::optional<ChosenSchedule> best;
  std::vector<int> boundaries;
  // Of each placement, the published schedule that its stages are balanced for.
  for (const Schedule& published : placements(plan)) {
    Plan placed = plan;
    std::vector<std::string> unsaid;
    // Remarks of a placement that is not taken are not told.
    const PlanChooser chooser{model, costs, cluster, memory_limit, unsaid};
    if (placed.boundaries.empty())
      placed.boundaries = chooser.boundaries(partition, placed, published, !rebuild);
    require_stages(derive(placed, model, published, known.part()), cluster.stack);
    auto found = shortest_schedule(placed, known, cluster, published.shape, limit);
    // Rebuilding is the last resort: it costs time where memory alone would do.
    if (rebuild && (!found || found->fits == Fits::no)) {
      placed.recompute = {.mode = RecomputeMode::full};
      found = shortest_schedule(placed, known, cluster, published.shape, limit);
    }
    if (!found) continue;
    // Fits before speed: the enumeration's order is yes, maybe, no.
    const bool better =
        !best || std::pair(found->fits, found->step) < std::pair(best->fits, best->step);
    if (!better) continue;
    best = std::move(found);
    boundaries = std::move(placed.boundaries);
  }
  if (!best)
    throw NoFeasiblePlan("--schedule auto: one micro-batch alone is more than the memory holds");
  remarks.push_back(describe(*best));
  plan.boundaries = std::move(boundaries);
  plan.slots = best->slots;
  return std::move(best->schedule);
}

Recompute PlanChooser::recompute(const Plan& plan, const Schedule& schedule) const {
  const LayerCosts known(plan, model, costs, cluster.stack);
  const ResolvedPlan resolved = derive(plan, model, schedule);
  require_stages(resolved, cluster.stack);
  const AutomaticRecompute chosen = automatic_recompute(
      resolved, known, cluster, memory_limit.value_or(cluster.largest_memory()));
  if (chosen.fits == Fits::no) throw NoFeasiblePlan("--recompute auto: " + describe(chosen));
  remarks.push_back(describe(chosen));
  return chosen.recompute;
}

}  // namespace weir::app
