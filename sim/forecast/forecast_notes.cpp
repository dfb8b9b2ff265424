// Figures that people should know of, as lines.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast/forecast_notes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/layers/row_work.hpp"
#include "costmodel/links/expert_overlap.hpp"
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

void say_of_positions(const ResolvedPlan& loaded, Forecast& f) {
  const std::int64_t stated = loaded.model.max_positions;
  if (stated == 0 || loaded.plan.seq_length <= stated) return;
  f.warnings.push_back(
      fmt::format("seq_length: {} is above the {} positions that the model's file speaks of: it is "
                  "trained with the angles that the file has",
                  loaded.plan.seq_length, stated));
}

void say_of_lengths(const ResolvedPlan& loaded, const CostTable& table, Forecast& f) {
  const Plan& plan = loaded.plan;
  if (!plan.lengths.known()) return;
  const RowWork row = mean_row(plan.lengths, plan.seq_length, plan.micro_batch_size);
  const SequenceLengths& lengths = plan.lengths;
  const bool dynamic = lengths.dynamic_cp > 0;
  if (dynamic) {
    f.warnings.push_back(
        fmt::format("lengths: each sequence alone on 1 to {} of {} devices, none with more than {} "
                    "tokens of it",
                    devices_of_sequence(lengths.quantiles.back(), lengths.dynamic_cp),
                    plan.replicas(), lengths.dynamic_cp));
    f.warnings.emplace_back(
        "lengths: what short sequences lose in small kernels where all have cp devices is not "
        "counted: beside such a plan this one may gain more, up to 2.4 times were reported");
  }
  f.warnings.push_back(fmt::format(
      "lengths: a row computes {:.1f} % of its tokens, of which {:.1f} % are padding, and {:.1f} % "
      "of a whole row's attention",
      100 * row.tokens, 100 * (1 - row.useful / row.tokens), 100 * row.squared));
  Nanoseconds most{0};
  for (const StageCost& stage : table.stages) most = std::max(most, stage.unlike);
  if (most.count() == 0) return;
  f.warnings.push_back(
      dynamic ? fmt::format("lengths: devices wait {:.3g} s a step for the fullest where rounds of "
                            "sequences end",
                            to_seconds(most).count())
              : fmt::format("lengths: replicas wait {:.3g} s a step for the one with the longest "
                            "sequences",
                            to_seconds(most).count()));
}

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

void say_of_host(const HostHeld& host, Forecast& f) {
  const auto gib = [](Bytes bytes) { return static_cast<double>(bytes.count()) / (1 << 30); };
  const auto say = [&](const char* word, Bytes held, const char* of_what) {
    if (held.count() == 0) return;
    const Fits fits = host.fits();
    f.warnings.push_back(
        fmt::format("{}: the host of a node holds up to {:.1f} GiB of {}, of {:.0f} GiB{}", word,
                    gib(held), of_what, gib(host.memory),
                    fits == Fits::yes  ? ""
                    : fits == Fits::no ? ": it does not fit"
                                       : ": it may not fit"));
  };
  say("offload_activations", host.activations, "them");
  say("offload_optimizer", host.optimizer, "the optimizer's state");
}

}  // namespace weir
