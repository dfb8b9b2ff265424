// Adds up what ranks do and why they wait, and takes the mean of it.
// SPDX-License-Identifier: Apache-2.0
#include "sim/explain/waterfall.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace weir {
namespace {

// Time of all ranks together.
struct Sums {
  PerCause<Nanoseconds> passes, update;
  Nanoseconds offloaded{0};  // of both, of their host's part
  Nanoseconds contention{0};
};

void add(PerCause<Nanoseconds>& sum, const PerCause<Nanoseconds>& parts) {
  for (const auto part : PerCause<Nanoseconds>::members()) sum.*part += parts.*part;
}

Sums busy_time(const Program& program, const CostBreakdown& costs, const Trace& trace) {
  const OperationCosts priced = expand(program, costs.table);
  const auto spans = trace.of_step(0);
  Sums sums;
  for (const Rank rank : program.ranks()) {
    for (const OperationId id : program.compute_lane(rank).operations()) {
      const Action& action = program.op(id).action;
      const std::size_t stage = action.stage.position();
      const bool update = action.kind == ActionKind::OPTIMIZER;
      PerCause<Nanoseconds>& of = update ? sums.update : sums.passes;
      add(of, costs.stages[stage][action.kind]);
      sums.offloaded += costs.offloaded[stage][action.kind];
      // The last micro-batch goes without where it is spared.
      if (is_backward(action.kind) && program.spared(action))
        of.rematerialised -= costs.table.stages[stage].rebuild;
      // Longer than its price: other messages or kernels slowed it down.
      sums.contention += spans[id].duration() - Nanoseconds(priced.duration_ns[id]);
    }
  }
  return sums;
}

// What ranks have together, of each a share of `ranks`: each border between two parts rounded
// down, so that the parts sum to the mean of the whole.
void take_mean(std::vector<StepShare>& parts, std::int64_t ranks) {
  std::int64_t until = 0, before = 0;
  for (StepShare& part : parts) {
    until += part.time.count();
    std::int64_t border = until / ranks;
    // C++ rounds towards zero; borders below 0 are rounded down like all others.
    if (until % ranks < 0) --border;
    part.time = Nanoseconds(border - before);
    before = border;
  }
}

// What the parts are called, and causes of a gap that are none of them.
struct Told {
  std::string_view name;
  std::string_view text;
};
constexpr std::array kTold{Told{"useful_at_peak", "useful work at the device's peak"},
                           Told{"kernels", "kernels, beyond the peak"},
                           Told{"compute", "computing"},
                           Told{"rematerialised", "re-materialisation"},
                           Told{"tensor", "tensor parallel collectives"},
                           Told{"context", "context parallel collectives"},
                           Told{"experts", "expert parallel exchanges"},
                           Told{"replicas", "replicas: gradients, shards"},
                           Told{"messages", "messages between stages"},
                           Told{"fill", "idle: fill"},
                           Told{"drain", "idle: drain"},
                           Told{"imbalance", "idle: imbalance"},
                           Told{"offload", "copies to the host, its update"},
                           Told{"host", "host"},
                           Told{"slow_rank", "one rank slower than the others"},
                           Told{"contention", "contention"},
                           Told{"update", "update"},
                           Told{"end", "idle: end of the step"}};

}  // namespace

Nanoseconds Waterfall::of(std::string_view name) const {
  const auto part = std::ranges::find(parts, name, &StepShare::name);
  return part == parts.end() ? Nanoseconds(0) : part->time;
}

Waterfall waterfall(const ResolvedPlan& resolved, const CostBreakdown& costs,
                    const ForecastResult& forecast) {
  const StepMetrics& metrics = forecast.forecast.metrics;
  const auto ranks = static_cast<std::int64_t>(metrics.ranks.size());
  const auto [passes, update, offloaded, contention] =
      busy_time(resolved.program, costs, forecast.trace);
  RankMetrics all;
  for (const RankMetrics& rank : metrics.ranks) {
    for (const IdleCause& cause : kIdleCauses) all.idle.*cause.time += rank.idle.*cause.time;
    all.reduction += rank.reduction;
  }
  Waterfall fall{metrics.step_time, {}};
  const auto add = [&](std::string_view name, Nanoseconds time) {
    fall.parts.push_back({name, time});
  };
  if (forecast.forecast.mfu) {
    // MFU of all ranks' time is what the useful FLOPs take at the peak rate.
    const double peak =
        *forecast.forecast.mfu * static_cast<double>(metrics.step_time.count() * ranks);
    const Nanoseconds useful(std::llround(peak));
    add("useful_at_peak", useful);
    add("kernels", passes.work - useful);
  } else {
    add("compute", passes.work);
  }
  add("rematerialised", passes.rematerialised);
  add("tensor", passes.tensor);
  add("context", passes.context);
  add("experts", passes.experts);
  add("replicas", passes.replicas + update.replicas + all.reduction);
  // Waiting for sums of gradients is communication too, but it is told with the replicas.
  add("messages", passes.messages + all.idle.communication - all.reduction);
  add("fill", all.idle.fill);
  add("drain", all.idle.drain);
  add("imbalance", all.idle.imbalance);
  add("offload", offloaded);
  add("host", passes.host + update.host - offloaded + all.idle.host);
  add("contention", contention);
  add("update", update.work);
  add("end", all.idle.optimizer);
  take_mean(fall.parts, ranks);
  return fall;
}

std::string_view part_in_words(std::string_view name) {
  const auto row = std::ranges::find(kTold, name, &Told::name);
  return row == kTold.end() ? name : row->text;
}

}  // namespace weir
