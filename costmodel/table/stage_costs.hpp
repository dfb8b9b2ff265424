// The costs of a plan's stages and messages. A stage is a sum over its layers' prices, wherever it
// begins.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/table/cost_table.hpp"
#include "costmodel/table/layer_costs.hpp"
#include "costmodel/table/layer_prices.hpp"
#include "costmodel/table/per_cause.hpp"
#include "plan/job/placement.hpp"

namespace weir {

// Remembers what stages of many layers come to, so one thread at a time asks it.
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
  [[nodiscard]] std::vector<std::string> warnings() const;
  // LayerPrices::device_over_host, the least of all kinds.
  [[nodiscard]] double device_over_host() const;

 private:
  // Of some layers, for a micro-batch and for a step.
  struct Sums {
    PerKind<Seconds> time, traffic;
    Seconds rebuild{0}, rebuild_traffic{0};
    MicrobatchTime varying;
  };
  [[nodiscard]] Sums sums(LayerRange layers) const;
  [[nodiscard]] Sums added(const LayerRange& layers) const;
  // On the first kind of nodes.
  [[nodiscard]] StageCost own(const StagePart& stage) const;
  [[nodiscard]] PerKind<PerCause<Seconds>> own_parts(const StagePart& stage);
  // Once a step, for one stage; factors of the costs included.
  [[nodiscard]] StepTraffic once_a_step(const StagePart& stage) const;
  // Once a step, what its host takes to update what it keeps.
  [[nodiscard]] Seconds by_the_host(const StagePart& stage) const;
  // By how much the slowest replica's sequences keep the others waiting, once a step.
  [[nodiscard]] Seconds waits_for_lengths(const MicrobatchTime& time) const;
  // Its I is nothing and its W the whole backward.
  [[nodiscard]] bool keeps_backward_whole(const StagePart& stage) const;
  [[nodiscard]] MessageCost message(const ScheduleShape& shape, Stage from, Stage to,
                                    std::int64_t sample_bytes) const;
  [[nodiscard]] Link stage_link_between(Rank from, Rank to) const;
  // What the shards of a divided vocabulary exchange for one micro-batch, each among all ranks.
  struct ShardCollectives {
    Nanoseconds broadcast, all_reduce_f, all_reduce_b;
  };
  [[nodiscard]] ShardCollectives shard_collectives(const ScheduleShape& shape,
                                                   const StagePart& last) const;
  // Between all ranks of a pipeline.
  [[nodiscard]] Link pipeline_group(const ScheduleShape& shape) const;
  void block_messages(CostTable& table, const ScheduleShape& shape) const;
  [[nodiscard]] Nanoseconds tie_reduction(const Tie& tie, const ScheduleShape& shape) const;

  const Plan& plan_;
  const LayerCosts& known_;
  const Cluster& cluster_;
  AnchorFactors anchor_;  // of the costs; 1 where they are not anchored
  Correction corrected_;  // what corrections make of a layer's own time
  LayerPrices prices_;
  mutable std::map<std::pair<int, int>, Sums> known_sums_;  // by first and last
  std::vector<StageCosts> other_kinds_;                     // of nodes, by Cluster::kind - 1
  std::optional<Placement> placement_;                      // where there are some
};

// What carries messages between two ranks of a pipeline: the link that was measured, where one was.
[[nodiscard]] Link stage_link(const Costs& costs, const Plan& plan, const Cluster& cluster,
                              Rank from, Rank to);

}  // namespace weir
