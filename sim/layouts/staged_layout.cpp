// Layers one after the other, their costs added up by stage.
// SPDX-License-Identifier: Apache-2.0
#include "sim/layouts/staged_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <variant>

#include "costmodel/links/collectives.hpp"
#include "costmodel/table/cost_table.hpp"
#include "plan/layout/exchanges.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/indexed.hpp"
#include "sim/engine/event_engine.hpp"
#include "sim/partition/balanced.hpp"
#include "traces/metrics.hpp"

namespace weir {
namespace {

using layout::LayerShare;
using layout::Network;
using layout::NetworkLayer;
using layout::NetworkLayout;
using layout::Role;

constexpr std::int64_t kFp32Bytes = 4;

// The layer and the tensor that a tied weight is; none: no layer that is there once has it.
struct Owner {
  std::size_t layer = 0, tensor = 0;
  auto operator<=>(const Owner&) const = default;
};
std::optional<Owner> owner_of(const Network& network, const layout::NetworkTensor& tied) {
  for (std::size_t l = 0; l < network.layers.size(); ++l) {
    const auto& tensors = network.layers[l].tensors;
    const auto found = std::ranges::find_if(tensors, [&](const layout::NetworkTensor& t) {
      return t.role == Role::weight && t.name == tied.name && t.dimensions == tied.dimensions;
    });
    if (found != tensors.end() && network.layers[l].repeat == 1)
      return Owner{l, at(found - tensors.begin())};
  }
  return std::nullopt;
}

std::variant<Schedule, std::string> schedule_of(const StagedJob& job) {
  // By the shape that is asked for here these would become other schedules, or are of models whose
  // vocabulary every rank has a part of.
  const Generator* by = find_generator(job.schedule);
  const char* why = by == nullptr                      ? nullptr
                    : by->default_chunks > 1           ? "places several stages on a rank"
                    : by->default_slices > 1           ? "slices sequences"
                    : divides_vocabulary(job.schedule) ? "divides the vocabulary over ranks"
                                                       : nullptr;
  if (why != nullptr)
    return fmt::format("{} {}: expected a schedule of one stage a rank", job.schedule, why);
  auto made =
      make_schedule(job.schedule, {.ranks = job.stages, .microbatches = job.job.micro_batches});
  if (const auto* schedule = std::get_if<Schedule>(&made)) {
    const ScheduleShape& shape = schedule->shape;
    // Others place stages otherwise, or cut what a layout's micro-batch is.
    if (shape.total_stages() != shape.ranks || shape.segments != 1)
      return fmt::format("{}: expected a schedule of one stage a rank", job.schedule);
  }
  return made;
}

// The network's layers, each repetition one, with what one of them costs.
class Chain {
 public:
  Chain(const Network& network, const NetworkLayout& layout, const StagedJob& job,
        const Cluster& cluster)
      : network_(network), layout_(layout), job_(job), cluster_(cluster) {
    for (std::size_t l = 0; l < network.layers.size(); ++l) {
      shares_.push_back(layer_share(network, layout, l));
      passes_.push_back(pass_times(shares_.back(), layout, job.job, cluster));
      first_.push_back(static_cast<int>(of_.size()));
      of_.insert(of_.end(), at(network.layers[l].repeat), l);
    }
  }
  [[nodiscard]] int layers() const { return static_cast<int>(of_.size()); }
  [[nodiscard]] std::vector<std::int64_t> times_ns() const {
    std::vector<std::int64_t> times;
    for (const std::size_t l : of_) {
      Seconds time(0);
      for (std::size_t pass = 0; pass < 3; ++pass)
        time += passes_[l].products[pass] + passes_[l].exchanges[pass];
      times.push_back(to_nanoseconds(time).count());
    }
    return times;
  }
  [[nodiscard]] LayoutStage stage(int first, int end) const {
    LayoutStage stage{.first = first, .layers = end - first};
    NetworkJob once = job_.job;
    once.micro_batches = 1;
    for (std::size_t l = 0; l < network_.layers.size(); ++l) {
      const int here = std::min(end, first_[l] + static_cast<int>(network_.layers[l].repeat)) -
                       std::max(first, first_[l]);
      if (here <= 0) continue;
      for (std::size_t pass = 0; pass < 3; ++pass) {
        stage.passes[pass] += (passes_[l].products[pass] + passes_[l].exchanges[pass]) * here;
        stage.exchanges += passes_[l].exchanges[pass] * here;
      }
      const NetworkCost cost = layer_cost(shares_[l], here, layout_, once, cluster_);
      stage.step += cost.reductions;
      stage.state += cost.state;
      stage.kept += cost.kept;
    }
    stage.message = output_bytes(of_[at(end - 1)]);
    return stage;
  }
  // Weights that layers of several stages read: each stage but their owner's has one copy, and all
  // of these stages sum their gradients.
  void tie(std::vector<LayoutStage>& stages) const {
    for (const auto& [owner, readers] : readers_by_owner()) {
      const std::size_t home = stage_of(stages, first_[owner.layer]);
      std::set<std::size_t> with{home};
      // What the copy costs there, as its first reader's use of it has it.
      for (const std::size_t l : readers) {
        const int last = first_[l] + static_cast<int>(network_.layers[l].repeat) - 1;
        for (std::size_t s = stage_of(stages, first_[l]); s <= stage_of(stages, last); ++s) {
          if (with.insert(s).second) add_copy(stages[s], l, owner);
        }
      }
      if (with.size() == 1) continue;
      const Seconds sum = sum_between(with, owner);
      for (const std::size_t s : with) stages[s].step += sum;
    }
  }
  // Of the devices at one place of two stages.
  [[nodiscard]] Link link_between(std::size_t from, std::size_t to) const {
    const auto each = static_cast<std::int32_t>(members(layout_, ~layout::Axes{0}));
    const auto device = [each](std::size_t stage) {
      return Rank{static_cast<std::int32_t>(stage) * each};
    };
    return cluster_.link(device(from), device(to));
  }

 private:
  [[nodiscard]] Bytes output_bytes(std::size_t l) const {
    const NetworkLayer& layer = network_.layers[l];
    const auto& dimensions = layer.tensors[at(layer.operations.back().output)].dimensions;
    const double numbers = block_elements(network_, layout_, dimensions);
    return Bytes(static_cast<std::int64_t>(std::llround(numbers)) *
                 bytes_per_element(job_.job.dtype));
  }
  // Layers that read a weight of another's, ascending, by the owner.
  [[nodiscard]] std::map<Owner, std::vector<std::size_t>> readers_by_owner() const {
    std::map<Owner, std::vector<std::size_t>> readers;
    for (std::size_t l = 0; l < network_.layers.size(); ++l) {
      for (const layout::NetworkTensor& tensor : network_.layers[l].tensors) {
        if (tensor.role == Role::tied) readers[*owner_of(network_, tensor)].push_back(l);
      }
    }
    return readers;
  }
  [[nodiscard]] const layout::NetworkTensor& weight_of(const Owner& owner) const {
    return network_.layers[owner.layer].tensors[owner.tensor];
  }
  // A copy is held, reduced among the stage's replicas and updated there as a weight of the
  // reader's own would be: what the reader's share has without the tie beyond what it has with it.
  void add_copy(LayoutStage& stage, std::size_t reader, const Owner& owner) const {
    Network untied = network_;
    auto& tensors = untied.layers[reader].tensors;
    const auto copy = std::ranges::find_if(tensors, [&](const layout::NetworkTensor& t) {
      return t.role == Role::tied && t.name == weight_of(owner).name;
    });
    copy->role = Role::weight;
    LayerShare share;
    const auto kind = [](const layout::Exchange& e) {
      return std::tuple(e.collective, e.pass, e.axes, e.elements, e.tensor, e.gradient, e.times);
    };
    // Those of the reader itself are among the other's, in the same order.
    auto tied = shares_[reader].exchanges.begin();
    for (const layout::Exchange& e : layer_share(untied, layout_, reader).exchanges) {
      if (tied != shares_[reader].exchanges.end() && kind(e) == kind(*tied)) {
        ++tied;
      } else {
        share.exchanges.push_back(e);
      }
    }
    share.held.push_back(
        {sharers_of(layout_, *copy), block_elements(network_, layout_, copy->dimensions)});
    NetworkJob once = job_.job;
    once.micro_batches = 1;
    const NetworkCost cost = layer_cost(share, 1, layout_, once, cluster_);
    stage.step += cost.reductions;
    stage.state += cost.state;
    // Shared sums of gradients are added to by each micro-batch.
    stage.passes[2] += cost.exchanges;
    stage.exchanges += cost.exchanges;
  }
  // Of the part of a weight's gradient that each device has when its stage's are summed, in fp32:
  // by the link between those that are furthest apart.
  [[nodiscard]] Seconds sum_between(const std::set<std::size_t>& stages, const Owner& owner) const {
    const double part =
        block_elements(network_, layout_, weight_of(owner).dimensions) /
        static_cast<double>(members(layout_, sharers_of(layout_, weight_of(owner))));
    const Bytes bytes(static_cast<std::int64_t>(std::llround(part * kFp32Bytes)));
    return all_reduce(bytes, static_cast<int>(stages.size()),
                      link_between(*stages.begin(), *stages.rbegin()));
  }
  [[nodiscard]] static std::size_t stage_of(const std::vector<LayoutStage>& stages, int layer) {
    std::size_t stage = 0;
    while (stages[stage].first + stages[stage].layers <= layer) ++stage;
    return stage;
  }

  const Network& network_;
  const NetworkLayout& layout_;
  const StagedJob& job_;
  const Cluster& cluster_;
  std::vector<LayerShare> shares_;  // by layer of the network
  std::vector<PassTimes> passes_;   //
  std::vector<int> first_;          // its first repetition
  std::vector<std::size_t> of_;     // by repetition: the layer
};

CostTable table_of(const Chain& chain, const std::vector<LayoutStage>& stages) {
  CostTable table;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const LayoutStage& stage = stages[s];
    StageCost cost;
    cost.f = to_nanoseconds(stage.passes[0]);
    cost.i = to_nanoseconds(stage.passes[1]);
    cost.w = to_nanoseconds(stage.passes[2]);
    cost.b = cost.i + cost.w;
    cost.optimizer = to_nanoseconds(stage.step);
    table.stages.push_back(cost);
    const auto message = [&](std::size_t from, Bytes bytes, std::size_t to) -> MessageCost {
      const LinkRegime by = chain.link_between(from, to).at(bytes);
      const Seconds busy = by.bandwidth.count() > 0 ? bytes / by.bandwidth : Seconds(0);
      return {to_nanoseconds(busy), to_nanoseconds(by.latency)};
    };
    const bool last = s + 1 == stages.size();
    table.forward_messages.push_back(last ? MessageCost{} : message(s, stage.message, s + 1));
    // The gradient of what the stage before has sent.
    table.backward_messages.push_back(s == 0 ? MessageCost{}
                                             : message(s, stages[s - 1].message, s - 1));
  }
  return table;
}

}  // namespace

Bytes StagedLayout::memory() const {
  Bytes most(0);
  for (const LayoutStage& stage : stages) most = std::max(most, stage.memory());
  return most;
}

std::optional<std::string> not_staged(const Network& network, const StagedJob& job) {
  std::int64_t layers = 0;
  for (std::size_t l = 0; l < network.layers.size(); ++l) {
    const NetworkLayer& layer = network.layers[l];
    layers += layer.repeat;
    const bool chained =
        l == 0 ? layer.given.size() <= 1
               : layer.given.size() == 1 && layer.given[0].source == static_cast<int>(l) - 1;
    if (!chained)
      return fmt::format(
          "layer {} does not read the layer before it alone: stages are cut from a "
          "chain of layers",
          layer.name);
    for (const layout::NetworkTensor& tensor : layer.tensors) {
      if (tensor.role == Role::tied && !owner_of(network, tensor))
        return fmt::format("layer {}: {}: no layer that is there once has a weight of that name",
                           layer.name, to_text(network, tensor));
    }
  }
  if (layers < job.stages)
    return fmt::format("{} layers, repetitions included, are fewer than {} stages", layers,
                       job.stages);
  const auto schedule = schedule_of(job);
  if (const auto* why = std::get_if<std::string>(&schedule)) return *why;
  return std::nullopt;
}

StagedLayout staged_layout(const Network& network, const NetworkLayout& layout,
                           const StagedJob& job, const Cluster& cluster) {
  const Schedule schedule = std::get<Schedule>(schedule_of(job));
  const Chain chain(network, layout, job, cluster);
  std::vector<int> boundaries = best_boundaries(chain.times_ns(), job.stages);
  boundaries.insert(boundaries.begin(), 0);
  boundaries.push_back(chain.layers());
  StagedLayout staged;
  const std::vector<std::int32_t> in_flight = peak_in_flight(schedule);
  for (std::size_t s = 0; s + 1 < boundaries.size(); ++s) {
    LayoutStage& stage = staged.stages.emplace_back(chain.stage(boundaries[s], boundaries[s + 1]));
    stage.in_flight = in_flight[s];
  }
  chain.tie(staged.stages);
  const Program program = lower(schedule, {});
  const OperationCosts costs = expand(program, table_of(chain, staged.stages));
  const auto timed = simulate(program, costs);
  assert(std::holds_alternative<Timing>(timed) && "buffered transfers of a schedule that is valid");
  const StepMetrics metrics = step_metrics(program, to_trace(program, std::get<Timing>(timed)));
  staged.step_time = to_seconds(metrics.step_time);
  staged.bubble_fraction = metrics.bubble_fraction;
  return staged;
}

}  // namespace weir
