// Workers as processors, and their blocks beside the unsplit computation's.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <span>
#include <string_view>

#include "exec/cpu/layout/network_plan.hpp"
#include "exec/cpu/layout/network_processor.hpp"
#include "exec/cpu/layout/network_routes.hpp"
#include "plan/words/indexed.hpp"

namespace weir::cpu {
namespace {

using layout::Act;
using layout::Axes;
using layout::Network;
using layout::NetworkLayer;
using layout::NetworkLayout;
using layout::Role;

// Partial sums that a weight's gradients are, one for each operation that reads it.
std::vector<Axes> partial_gradients(const LayerPlan& plan, int tensor) {
  std::vector<Axes> all;
  const Phases& phases = plan.backward;
  for (const auto* list : {&phases.before, &phases.step, &phases.behind}) {
    for (const layout::Instruction& i : *list) {
      if (i.tensor != tensor) continue;
      if (i.what == layout::Instruction::Do::gradient) all.push_back(i.axes);
      if (i.what == layout::Instruction::Do::move_gradient) all.push_back(i.left);
    }
  }
  return all;
}

// A tied weight's gradients go into its owner's, where those are the same kind of partial sum.
std::optional<std::string> not_tied(const Network& network, const std::vector<LayerPlan>& plans,
                                    std::size_t l) {
  const NetworkLayer& layer = network.layers[l];
  for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
    if (layer.tensors[t].role != Role::tied) continue;
    const LayerPlan& mine = plans[l];
    const std::string what =
        fmt::format("layer {}: {}", layer.name, to_text(network, layer.tensors[t]));
    if (mine.owners[t] < 0)
      return what + ": no layer that is there once has a weight of that name and dimensions";
    const auto owned = partial_gradients(plans[at(mine.owners[t])], mine.owned[t]);
    for (const Axes partial : partial_gradients(mine, static_cast<int>(t))) {
      if (std::ranges::find(owned, partial) == owned.end())
        return what + ": its gradient is summed over other processors than its owner's";
    }
  }
  return std::nullopt;
}

// The integers of a choice are numbered by its output's places, visits of experts by the tokens' of
// their routes: where these were in another order, a token's answer of one expert would be weighed
// by its share of another.
std::optional<std::string> not_numbered_alike(const Network& network, const NetworkLayer& layer) {
  const auto tokens = [&](std::vector<int> dimensions) {
    std::erase_if(dimensions, [&](int d) { return network.dimensions[at(d)].size == 1; });
    return dimensions;
  };
  const auto refused = [&](const layout::Operation& o, std::string_view why) {
    return fmt::format("layer {}: {} is priced, not run: {}", layer.name,
                       to_text(network, layer, o), why);
  };
  const auto dimensions = [&](int tensor) { return layer.tensors[at(tensor)].dimensions; };
  for (const layout::Operation& home : layer.operations) {
    if (home.act != Act::back) continue;
    const RouteSides its =
        route_sides(network, dimensions(home.output), dimensions(home.inputs[0]));
    const std::vector<int> visits = tokens(its.tokens);
    for (const layout::Operation& o : layer.operations) {
      if (o.act == Act::route) {
        const RouteSides there =
            route_sides(network, dimensions(o.inputs[0]), dimensions(o.output));
        const std::vector<int> from = tokens(there.tokens);
        const bool alike = there.experts == its.experts && from.size() <= visits.size() &&
                           std::ranges::equal(from, std::span(visits).first(from.size()));
        if (!alike) return refused(o, "its tokens are not in the order of those that come back");
      }
      if (o.act != Act::choose) continue;
      if (tokens(dimensions(o.output)) != visits)
        return refused(o, "what is chosen is not in the order of the visits that come back");
      if (network.dimensions[at(o.over)].size != its.experts)
        return refused(o, "it chooses among another number than there are experts");
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> not_run(const Network& network, const NetworkLayout& layout) {
  for (const NetworkLayer& layer : network.layers) {
    if (auto why = not_numbered_alike(network, layer)) return why;
    for (const layout::Operation& o : layer.operations) {
      if (o.act != Act::turn) continue;
      const auto refused = [&](std::string_view why) {
        return fmt::format("layer {}: {} is priced, not run: {}", layer.name,
                           to_text(network, layer, o), why);
      };
      if (o.over < 0) return refused("write over which dimension positions are counted");
      const int pairs = layer.tensors[at(o.output)].dimensions.back();
      if (BlockShape(network, layout, {pairs}).elements % 2 != 0)
        return refused(
            fmt::format("a block of {} has no whole pairs", network.dimensions[at(pairs)].name));
    }
  }
  const std::vector<LayerPlan> plans = layer_plans(network, layout);
  for (std::size_t l = 0; l < network.layers.size(); ++l) {
    if (auto why = not_tied(network, plans, l)) return why;
  }
  return std::nullopt;
}

RunBytes run_bytes(const Network& network, const NetworkLayout& layout) {
  const BlockBytes each = block_bytes(network, layer_plans(network, layout));
  const auto processors = static_cast<double>(members(layout, ~Axes{0}));
  return {processors * each.numbers, processors * (each.numbers + each.records)};
}

NetworkRun::NetworkRun(const Network& network, const NetworkLayout& layout, Workers& workers,
                       std::uint64_t seed)
    : network_(network),
      layout_(layout),
      workers_(workers),
      board_(network_, layout_, workers),
      plan_(std::make_unique<NetworkPlan>(network_plan(network_, layout_))) {
  assert(members(layout_, ~Axes{0}) == workers.count() && "one worker a processor");
  counts_.resize(at(workers.count()));
  processors_.resize(at(workers.count()));
  // Each makes its own blocks, so that they lie near its core.
  workers.run([&](int worker) {
    processors_[at(worker)] =
        std::make_unique<NetworkProcessor>(network_, layout_, *plan_, board_, worker, seed);
  });
}

NetworkRun::~NetworkRun() = default;

double NetworkRun::held_bytes() const {
  double all = 0;
  for (const auto& processor : processors_) all += processor->held_bytes();
  return all;
}

NetworkTimes NetworkRun::step() {
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> starts(processors_.size()), ends(processors_.size());
  workers_.run([&](int worker) {
    // All begin together, so that nobody's time holds another's start.
    workers_.meet();
    starts[at(worker)] = Clock::now();
    processors_[at(worker)]->step();
    ends[at(worker)] = Clock::now();
  });
  NetworkTimes times;
  const auto n = static_cast<double>(processors_.size());
  for (std::size_t p = 0; p < processors_.size(); ++p) {
    counts_[p] = processors_[p]->counts();
    const NetworkTimes& one = processors_[p]->times();
    times.products += one.products / n;
    times.elementwise += one.elementwise / n;
    times.exchanges += one.exchanges / n;
  }
  times.step = *std::ranges::max_element(ends) - *std::ranges::min_element(starts);
  return times;
}

const std::vector<NodeBlocks>& NetworkRun::nodes(int processor) const {
  return processors_[at(processor)]->nodes();
}

NetworkDifference NetworkRun::difference(const NetworkRun& whole) const {
  std::vector<const NetworkProcessor*> all;
  for (const auto& processor : processors_) all.push_back(processor.get());
  return together({tensors_apart(network_, layout_, *plan_, all, whole.nodes(0))});
}

}  // namespace weir::cpu
