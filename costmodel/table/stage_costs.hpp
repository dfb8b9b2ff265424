// From costs of layers to the costs of a plan's stages and messages. Each layer is priced once for
// the plan's micro-batch size, with what it sends; a stage is a sum over its layers, wherever it
// begins.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/links/parallel.hpp"
#include "costmodel/table/cost_table.hpp"
#include "costmodel/table/layer_costs.hpp"
#include "costmodel/table/per_cause.hpp"
#include "plan/job/placement.hpp"

namespace weir {

struct CostTableResult {
  CostTable table;
  std::vector<Bytes> scratch;  // per rank: library scratch memory, for memory_peaks
  bool inside_range = true;    // every layer and micro-batch size lies within what was measured
  std::vector<std::string> warnings;  // what was extrapolated, one line each
  double device_over_host = 0;        // StageCosts::device_over_host()
};

class StageCosts {
 public:
  // The references must outlive it.
  StageCosts(const Plan& plan, const LayerCosts& known, const Cluster& cluster);

  // On the fastest kind of the cluster's nodes, each time for itself.
  [[nodiscard]] StageCost of(const StagePart& stage) const;
  // Where a rank stands: the slowest of the kinds on which it has devices.
  [[nodiscard]] StageCost of(const StagePart& stage, Rank rank) const;
  // What its passes and its update are added up from, without what rebuilds layers.
  [[nodiscard]] PerKind<PerCause<Seconds>> parts(const StagePart& stage, Rank rank);
  // The plan's, or the same plan's with stages and ties of other boundaries.
  [[nodiscard]] CostTable table(const ScheduleShape& shape, std::span<const StagePart> stages,
                                std::span<const Tie> ties) const;
  // The same in two steps, for stages that differ in few: each priced alone, with what it sends
  // (`alone` has room for all), and what they cost each other.
  void price(CostTable& alone, const ScheduleShape& shape, std::span<const StagePart> stages,
             Stage stage) const;
  [[nodiscard]] CostTable together(CostTable alone, const ScheduleShape& shape,
                                   std::span<const Tie> ties) const;
  [[nodiscard]] CostTable alone(const ScheduleShape& shape,
                                std::span<const StagePart> stages) const;
  // Per rank, the most that any layer of its stages asks for.
  [[nodiscard]] std::vector<Bytes> scratch(const ScheduleShape& shape,
                                           std::span<const StagePart> stages) const;
  // What was extrapolated, one line each; empty: every layer and micro-batch size lies within what
  // was measured.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  // The device's time of a layer's pass over the host's time about its collectives, the least of
  // all: above 1 the host runs ahead of the device. Infinite where the host takes none.
  [[nodiscard]] double device_over_host() const { return device_over_host_; }

 private:
  // On the first kind of nodes.
  [[nodiscard]] StageCost own(const StagePart& stage) const;
  [[nodiscard]] PerKind<PerCause<Seconds>> own_parts(const StagePart& stage);
  // One layer of one device, for one micro-batch.
  struct LayerPrice {
    LayerTime time;            // what corrections apply to
    PerKind<Seconds> traffic;  // what they do not
    Seconds rebuild{0};  // its R within its B and I (recompute full); a part of neither's `time`
  };
  // Of a price, what its sums do not show.
  struct PriceParts {
    PerKind<Seconds> tensor, context, experts;  // of its traffic
    PerKind<Seconds> replicas;                  // of its time, what ZeRO sends beyond the kernels
    Seconds core{0};  // of its I and B, the attention core again (selective)
  };
  [[nodiscard]] LayerPrice price(int layer, PriceParts* parts = nullptr);
  // Once a step, for one stage; factors of the costs included.
  [[nodiscard]] StepTraffic once_a_step(const StagePart& stage) const;
  // What corrections make of a layer's own time in actions of this kind.
  [[nodiscard]] double corrected(ActionKind kind) const;
  // Its I is nothing and its W the whole backward.
  [[nodiscard]] bool keeps_backward_whole(const StagePart& stage) const;
  // The layer's own time, with R and its share of the update.
  [[nodiscard]] LayerTime matched(int layer);
  [[nodiscard]] MessageCost message(const ScheduleShape& shape, Stage from, Stage to,
                                    std::int64_t sample_bytes) const;
  void warn(std::string warning);
  void block_messages(CostTable& table, const ScheduleShape& shape) const;
  [[nodiscard]] Nanoseconds tie_reduction(const Tie& tie, const ScheduleShape& shape) const;

  const Plan& plan_;
  const LayerCosts& known_;
  const Cluster& cluster_;
  ParallelLinks links_;
  AnchorFactors anchor_;  // of the costs; 1 where they are not anchored
  double device_over_host_ = std::numeric_limits<double>::infinity();
  std::vector<LayerPrice> prices_;
  std::vector<std::string> warnings_;
  std::vector<StageCosts> other_kinds_;  // of nodes, by Cluster::kind - 1
  std::optional<Placement> placement_;   // where there are some
};

// What carries messages between two ranks of a pipeline: the link that was measured, where one was.
[[nodiscard]] Link stage_link(const Costs& costs, const Plan& plan, const Cluster& cluster,
                              Rank from, Rank to);

// Stage costs of a plan, of one device of each stage. A split layer that the costs do not have
// takes the whole layer's time divided by tp and cp, with a warning; to that comes what it sends
// (costmodel/links/parallel). Throws InputError where a stage has no layer and the cluster's stack
// cannot leave one empty.
[[nodiscard]] CostTableResult cost_table(const ResolvedPlan& resolved, const LayerCosts& known,
                                         const Cluster& cluster);
// The same, matched for this plan alone. Throws InputError when a layer of the model is not in the
// costs.
[[nodiscard]] CostTableResult cost_table(const ResolvedPlan& resolved, const Costs& costs,
                                         const Cluster& cluster);

}  // namespace weir
