// Figures that people should know of, as lines.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast_notes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/layers/row_work.hpp"
#include "costmodel/links/expert_overlap.hpp"
#include "costmodel/links/offload.hpp"
#include "plan/job/placement.hpp"

namespace weir {

void warn_of_crowded_memory(const Plan& plan, const Cluster& cluster, Forecast& f) {
  const double crowded = cluster.stack.memory.crowded;
  if (plan.pp == 1 || crowded == 1) return;
  // Each rank against what its own nodes have.
  const std::vector<Bytes> most = rank_limits(plan, cluster, cluster.largest_memory());
  bool any = false;
  for (std::size_t r = 0; r < f.memory.size(); ++r) {
    const double share = crowded * static_cast<double>(most[r].count());
    any = any || static_cast<double>(f.memory[r].peak.count()) > share;
  }
  if (!any) return;
  f.warnings.push_back(fmt::format(
      "more than {:.0f} % of the memory is taken: measured pipelines of {} so full took "
      "several times as long, their allocator freeing and asking again",
      crowded * 100, cluster.stack.name));
}

void warn_of_empty_stages(const ResolvedPlan& loaded, Forecast& f) {
  const auto empty = std::ranges::count_if(loaded.stages, [](const StagePart& stage) {
    return stage.layers.first == stage.layers.last;
  });
  if (empty == 0) return;
  f.warnings.push_back(
      fmt::format("{} of {} stages hold no layer: of measured runs with such stages nearly all "
                  "failed",
                  empty, loaded.stages.size()));
}

void warn_of_direct_skips(const ResolvedPlan& loaded, Forecast& f) {
  if (loaded.staged.empty()) return;
  f.warnings.emplace_back(
      "skips: direct: times are of layers that hand skips on, and copies between rows and "
      "messages are not counted");
}

void say_of_lengths(const ResolvedPlan& loaded, const CostTable& table, Forecast& f) {
  const Plan& plan = loaded.plan;
  if (!plan.lengths.known()) return;
  const RowWork row = mean_row(plan.lengths, plan.seq_length, plan.micro_batch_size);
  f.warnings.push_back(fmt::format(
      "lengths: a row computes {:.1f} % of its tokens, of which {:.1f} % are padding, and {:.1f} % "
      "of a whole row's attention",
      100 * row.tokens, 100 * (1 - row.useful / row.tokens), 100 * row.squared));
  Nanoseconds most{0};
  for (const StageCost& stage : table.stages) most = std::max(most, stage.unlike);
  if (most.count() == 0) return;
  f.warnings.push_back(
      fmt::format("lengths: replicas wait {:.3g} s a step for the one with the longest sequences",
                  to_seconds(most).count()));
}

namespace {

// The most micro-batches of a stage between their F and their backward, by its rank's order.
std::int64_t most_in_flight(const Schedule& schedule, Stage stage) {
  std::int64_t now = 0, most = 0;
  for (const Action& action : schedule.order[schedule.shape.rank_of(stage)]) {
    if (action.stage != stage) continue;
    if (action.kind == ActionKind::F) most = std::max(most, ++now);
    if (is_backward(action.kind)) --now;
  }
  return most;
}

void say_of_host_activations(const ResolvedPlan& loaded, const ModelPart& part,
                             const Cluster& cluster, Forecast& f) {
  const Plan& plan = loaded.plan;
  if (plan.offload_activations == 0) return;
  const ScheduleShape& shape = loaded.schedule.shape;
  std::vector<std::int64_t> held(static_cast<std::size_t>(shape.ranks), 0);
  for (std::int32_t s = 0; s < shape.total_stages(); ++s) {
    std::int64_t each = 0;
    const LayerRange layers = loaded.stage(Stage{s}).layers;
    for (int l = layers.first; l < layers.last; ++l) {
      const LayerPart& layer = part.layer(l);
      each += offloaded_bytes(layer, plan, rebuilds(plan.recompute, layer, l));
    }
    held[static_cast<std::size_t>(shape.rank_of(Stage{s}).value)] +=
        each * most_in_flight(loaded.schedule, Stage{s});
  }
  const Cluster& nodes = cluster.kind(0);
  const int used = std::min(plan.devices(), nodes.devices_per_node);
  const double most = static_cast<double>(*std::ranges::max_element(held)) * used;
  const auto there = static_cast<double>(nodes.host.value().memory.count());
  f.warnings.push_back(fmt::format(
      "offload_activations: the host of a node holds up to {:.1f} GiB of them, of {:.0f} GiB{}",
      most / (1 << 30), there / (1 << 30), most > there ? ": it does not fit" : ""));
}

}  // namespace

void say_of_experts(const Plan& plan, const Cluster& cluster, Forecast& f) {
  if (!plan.overlap_experts) return;
  if (const auto why = why_experts_wait(plan)) {
    f.warnings.push_back(
        fmt::format("overlap_experts: nothing of the experts' exchanges is hidden: {}", *why));
  } else if (cluster.stack.time.expert_overlap == 0) {
    f.warnings.push_back(fmt::format(
        "overlap_experts: nothing of the experts' exchanges is hidden: {} has no such overlap",
        cluster.stack.name));
  }
}

void say_of_host(const ResolvedPlan& loaded, const ModelPart& part, const Cluster& cluster,
                 Forecast& f) {
  say_of_host_activations(loaded, part, cluster, f);
  const Plan& plan = loaded.plan;
  if (plan.offload_optimizer == 0) return;
  const ScheduleShape& shape = loaded.schedule.shape;
  std::vector<double> numbers(static_cast<std::size_t>(shape.ranks), 0);
  for (std::int32_t s = 0; s < shape.total_stages(); ++s)
    numbers[static_cast<std::size_t>(shape.rank_of(Stage{s}).value)] +=
        offloaded_numbers(loaded.stage(Stage{s}), plan);
  const Cluster& nodes = cluster.kind(0);
  const Bytes held = host_bytes(*std::ranges::max_element(numbers), plan, nodes);
  const Bytes there = nodes.host.value().memory;
  f.warnings.push_back(fmt::format(
      "offload_optimizer: the host of a node holds up to {:.1f} GiB of the optimizer's state, of "
      "{:.0f} GiB{}",
      static_cast<double>(held.count()) / (1 << 30), static_cast<double>(there.count()) / (1 << 30),
      held > there ? ": it does not fit" : ""));
}

}  // namespace weir
