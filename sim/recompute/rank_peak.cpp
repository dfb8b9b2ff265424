// Walks one rank's word over the footprints of its stages.
// SPDX-License-Identifier: Apache-2.0
#include "sim/recompute/rank_peak.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "costmodel/memory/stage_memory.hpp"

namespace weir {
namespace {

struct Effect {
  std::int64_t worst = 0;  // over what is live at the start
  std::int64_t net = 0;    // with what comes in and goes out by messages
};

}  // namespace

std::int64_t rank_peak(const ResolvedPlan& resolved, const LayerCosts& known,
                       const Cluster& cluster, Rank rank, const Recompute& recompute) {
  Plan plan = resolved.plan;
  plan.recompute = recompute;
  const bool remat = recompute.mode == RecomputeMode::full;
  std::map<std::pair<std::int32_t, ActionKind>, Effect> effects;
  std::int64_t live = 0, peak = 0;
  for (const Stage stage : resolved.schedule.shape.all_stages()) {
    if (resolved.schedule.shape.rank_of(stage) != rank) continue;
    const StageMemory memory(plan, *known.part(), resolved.stage(stage), cluster.device.allocator,
                             cluster.stack);
    live += total_bytes(memory.parameters());
    for (const ActionKind kind : {ActionKind::F, ActionKind::I, ActionKind::W, ActionKind::B}) {
      const Footprint footprint = memory.of(kind, remat);
      // F takes its input and hands its output on, a backward the other way round.
      const bool forward = kind == ActionKind::F, passes = forward || is_backward(kind);
      const std::int64_t input = memory.input_bytes(), output = memory.output_bytes();
      const std::int64_t comes = !passes ? 0 : forward ? input : output;
      const std::int64_t goes = !passes ? 0 : forward ? output : input;
      effects[{stage.value, kind}] = {comes + total_bytes(footprint.worst),
                                      comes + total_bytes(footprint.net) - goes};
    }
  }
  for (const Action& action : resolved.schedule.order[rank]) {
    const Effect& effect = effects.at({action.stage.value, action.kind});
    peak = std::max(peak, live + effect.worst);
    live += effect.net;
  }
  return peak;
}

}  // namespace weir
