// Instructions sorted into phases, and what is summed in another order followed through them.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_plan.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "exec/cpu/layout/kernels/network_kernels.hpp"
#include "plan/words/indexed.hpp"

namespace weir::cpu {
namespace {

using layout::Act;
using layout::Axes;
using layout::Given;
using layout::Instruction;
using layout::Network;
using layout::NetworkLayer;
using layout::NetworkLayout;
using layout::Operation;
using Do = Instruction::Do;

bool of_the_forward(const Instruction& i) {
  return i.what == Do::forward || i.what == Do::make_whole || (i.what == Do::move && !i.again);
}

// The tensor whose place among the steps is the instruction's.
int place_of(const NetworkLayer& layer, const Instruction& i) {
  const bool of_a_tensor = i.what == Do::make_whole || i.what == Do::whole_gradient;
  return of_a_tensor ? i.tensor : layer.operations[at(i.operation)].output;
}

// Sums over other processors are added up apart; of a weight, which is reduced once a step, those
// of each operation too.
std::vector<std::size_t> parts_of(const NetworkLayer& layer, const Phases& backward) {
  std::vector<std::set<std::pair<Axes, int>>> kinds(layer.tensors.size());
  std::vector<std::size_t> parts(layer.tensors.size(), 0);
  for (const auto* list : {&backward.before, &backward.step, &backward.behind}) {
    for (const Instruction& i : *list) {
      const Operation& o = layer.operations[at(i.operation)];
      const bool moves = i.what == Do::move_gradient;
      if (i.what != Do::gradient && !moves) continue;
      parts[at(o.output)] = 1;  // is read, if of nothing but zeros
      if (i.again) continue;
      const int operation = is_weight(layer.tensors[at(i.tensor)]) ? i.operation : -1;
      const Axes partial = !moves ? i.axes : o.act == Act::carry ? 0 : i.left;
      kinds[at(i.tensor)].insert({partial, operation});
    }
  }
  // Whole gradients of the output come from the layers that read it.
  kinds[at(layer.operations.back().output)].insert({0, -1});
  for (std::size_t t = 0; t < parts.size(); ++t) {
    const bool weight = layer.tensors[t].role == layout::Role::weight;
    parts[t] = std::max({parts[t], kinds[t].size(), std::size_t{weight ? 1U : 0U}});
  }
  return parts;
}

// An attention's rows with all keys.
BlockShape scores_shape(const LayerPlan& plan, const Operation& o) {
  const BlockShape& queries = plan.shapes[at(o.inputs[0])];
  std::vector<int> dimensions = queries.dimensions;
  std::vector<std::int64_t> sizes = queries.sizes;
  dimensions.back() = o.over;
  sizes.back() = plan.shapes[at(o.inputs[1])].size(o.over);
  return {std::move(dimensions), std::move(sizes)};
}

// Statistics of a norm and a loss, an attention's shares and their gradients, and the integers of a
// gather, a choice and a loss.
void add_rows(const NetworkLayer& layer, LayerPlan& plan) {
  for (const Operation& o : layer.operations) {
    BlockShape& scores = plan.scores.emplace_back();
    if (o.act == Act::attention) {
      scores = scores_shape(plan, o);
      plan.rows = std::max(plan.rows, scores.without(o.over).elements);
      plan.statistics.push_back(2 * scores.elements);
      plan.picks.push_back(0);
      continue;
    }
    const bool norm = o.act == Act::norm || o.act == Act::rms_norm;
    const BlockShape& in = plan.shapes[at(o.inputs[0])];
    const std::int64_t rows =
        norm || o.act == Act::softmax || o.act == Act::loss ? in.without(o.over).elements : 0;
    plan.rows = std::max(plan.rows, rows);
    plan.statistics.push_back(norm || o.act == Act::loss ? 2 * rows : 0);
    std::int64_t picks = o.act == Act::loss ? rows : 0;
    if (o.act == Act::gather)
      picks = plan.shapes[at(o.output)].elements / in.without(o.over).elements;
    if (o.act == Act::choose) picks = plan.shapes[at(o.output)].elements;
    plan.picks.push_back(picks);
  }
}

// Room for copies of factors, and for gradients on their way home.
void add_copies(const NetworkLayer& layer, LayerPlan& plan) {
  const auto product = [&plan](const BlockShape& a, const BlockShape& b, const BlockShape& c) {
    const std::array<const BlockShape*, 2> factors{&a, &b};
    for (std::size_t f = 0; f < factors.size(); ++f) {
      if (!is_packed(*factors[f], c))
        plan.packed[f] = std::max(plan.packed[f], factors[f]->elements);
    }
  };
  const auto shape = [&plan](int tensor) -> const BlockShape& { return plan.shapes[at(tensor)]; };
  const auto is_product = [](const Operation& o) {
    return o.act == Act::product || o.act == Act::weigh;
  };
  for (std::size_t index = 0; index < layer.operations.size(); ++index) {
    const Operation& o = layer.operations[index];
    if (is_product(o)) product(shape(o.inputs[0]), shape(o.inputs[1]), shape(o.output));
    if (o.act != Act::attention) continue;
    const BlockShape &q = shape(o.inputs[0]), &k = shape(o.inputs[1]), &v = shape(o.inputs[2]),
                     &out = shape(o.output), &scores = plan.scores[index];
    product(q, k, scores);
    product(scores, v, out);
    product(out, v, scores);
    product(scores, k, q);
    product(scores, q, k);
    product(scores, out, v);
  }
  const Phases& backward = plan.backward;
  for (const auto* list : {&backward.before, &backward.step, &backward.behind}) {
    for (const Instruction& i : *list) {
      const Operation& o = layer.operations[at(i.operation)];
      if (i.what == Do::move_gradient)
        plan.moved = std::max(plan.moved, plan.shapes[at(i.tensor)].elements);
      if (i.what == Do::gradient && is_product(o))
        product(shape(o.output), shape(other_factor(o, i.tensor)), shape(i.tensor));
    }
  }
}

LayerPlan layer_plan(const Network& network, const NetworkLayout& layout, std::size_t l) {
  const NetworkLayer& layer = network.layers[l];
  LayerPlan plan;
  for (const layout::NetworkTensor& tensor : layer.tensors) {
    plan.shapes.emplace_back(network, layout, tensor.dimensions);
    const bool shared = tensor.role == layout::Role::weight && sharers_of(layout, tensor) != 0;
    plan.updated.push_back(shared ? at(plan.shapes.back().elements) : 0);
  }
  plan.pending.assign(layer.tensors.size(), 0);
  for (const Instruction& i : layer_script(network, layout, l)) {
    const int tensor = place_of(layer, i);
    Phases& phases = of_the_forward(i) ? plan.forward : plan.backward;
    const bool step = layer.time >= 0 && layer.stepwise[at(tensor)];
    (step ? phases.step : layer.behind[at(tensor)] ? phases.behind : phases.before).push_back(i);
    if (i.what == Do::forward) plan.pending[at(i.tensor)] = i.axes;
    if (i.what == Do::move && !i.again)
      plan.pending[at(i.tensor)] = layer.operations[at(i.operation)].act == Act::carry ? 0 : i.left;
    if (i.what == Do::make_whole) plan.pending[at(i.tensor)] &= ~i.axes;
  }
  plan.parts = parts_of(layer, plan.backward);
  add_rows(layer, plan);
  add_copies(layer, plan);
  plan.owners.assign(layer.tensors.size(), -1);
  plan.owned.assign(layer.tensors.size(), -1);
  for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
    if (layer.tensors[t].role != layout::Role::tied) continue;
    for (std::size_t o = 0; o < network.layers.size(); ++o) {
      const auto& all = network.layers[o].tensors;
      const auto found = std::ranges::find_if(all, [&](const layout::NetworkTensor& other) {
        return other.role == layout::Role::weight && other.name == layer.tensors[t].name &&
               other.dimensions == layer.tensors[t].dimensions;
      });
      if (found == all.end() || network.layers[o].repeat > 1) continue;
      plan.owners[t] = static_cast<int>(o);
      plan.owned[t] = static_cast<int>(found - all.begin());
      break;
    }
  }
  return plan;
}

// Whether an operation along a dimension adds up a row's parts of several processors.
bool splits_rows(const NetworkLayout& layout, const Operation& o) {
  const bool rows =
      o.act == Act::norm || o.act == Act::rms_norm || o.act == Act::softmax || o.act == Act::loss;
  return rows && layout.over[at(o.over)] != 0;
}

// What is added up in another order, through one node.
class Order {
 public:
  Order(const Network& network, const NetworkLayout& layout, NetworkNode& node)
      : layer_(network.layers[node.layer]), layout_(layout), node_(node) {}
  void follow(const Phases& phases) {
    for (const auto* list : {&phases.before, &phases.step, &phases.behind}) {
      for (const Instruction& i : *list) follow(i);
    }
  }

 private:
  void follow(const Instruction& i) {
    const Operation& o = layer_.operations[at(i.operation)];
    std::vector<bool>&value = node_.value_reordered, &gradient = node_.gradient_reordered;
    const auto set = [](std::vector<bool>& all, int tensor, bool reordered) {
      all[at(tensor)] = all[at(tensor)] || reordered;
    };
    switch (i.what) {
      case Do::forward:
      case Do::move:
        for (const int input : o.inputs) set(value, o.output, value[at(input)]);
        set(value, o.output, i.axes != 0 || splits_rows(layout_, o));
        break;
      case Do::make_whole:
        set(value, i.tensor, true);
        break;
      case Do::gradient:
      case Do::move_gradient:
        for (const int input : o.inputs) set(gradient, i.tensor, value[at(input)]);
        set(gradient, i.tensor,
            value[at(o.output)] || gradient[at(o.output)] || i.axes != 0 ||
                splits_rows(layout_, o));
        break;
      case Do::whole_gradient:
        set(gradient, i.tensor, true);
        break;
    }
  }
  const NetworkLayer& layer_;
  const NetworkLayout& layout_;
  NetworkNode& node_;
};

void follow_order(const Network& network, const NetworkLayout& layout, NetworkPlan& plan) {
  for (NetworkNode& node : plan.nodes) {
    const NetworkLayer& layer = network.layers[node.layer];
    node.value_reordered.assign(layer.tensors.size(), false);
    node.gradient_reordered.assign(layer.tensors.size(), false);
    for (std::size_t g = 0; g < layer.given.size(); ++g) {
      if (node.sources[g] < 0) continue;
      const NetworkNode& source = plan.nodes[at(node.sources[g])];
      node.value_reordered[at(layer.given[g].tensor)] =
          source.value_reordered[at(network.layers[source.layer].operations.back().output)];
    }
    // As often as a state may hand it on to another one.
    for (std::size_t round = 0; round <= layer.tensors.size(); ++round)
      Order(network, layout, node).follow(plan.layers[node.layer].forward);
  }
  for (std::size_t n = plan.nodes.size(); n-- > 0;) {
    NetworkNode& node = plan.nodes[n];
    const NetworkLayer& layer = network.layers[node.layer];
    for (std::size_t round = 0; round <= layer.tensors.size(); ++round)
      Order(network, layout, node).follow(plan.layers[node.layer].backward);
    for (std::size_t g = 0; g < layer.given.size(); ++g) {
      if (node.sources[g] < 0) continue;
      NetworkNode& source = plan.nodes[at(node.sources[g])];
      auto gradient =
          source.gradient_reordered[at(network.layers[source.layer].operations.back().output)];
      gradient = gradient || node.gradient_reordered[at(layer.given[g].tensor)];
    }
  }
}

}  // namespace

std::vector<LayerPlan> layer_plans(const Network& network, const NetworkLayout& layout) {
  std::vector<LayerPlan> plans;
  for (std::size_t l = 0; l < network.layers.size(); ++l)
    plans.push_back(layer_plan(network, layout, l));
  return plans;
}

int other_factor(const Operation& o, int tensor) { return o.inputs[o.inputs[0] == tensor ? 1 : 0]; }

BlockBytes block_bytes(const Network& network, const std::vector<LayerPlan>& layers) {
  constexpr double kRecord = 64;  // a vector's own words and its allocation's
  BlockBytes bytes;
  std::int64_t rows = 0, moved = 0;
  std::array<std::int64_t, 2> packed{};
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const NetworkLayer& layer = network.layers[l];
    const LayerPlan& plan = layers[l];
    const auto times = [&](int tensor) {
      return static_cast<double>(layer.repeat) *
             static_cast<double>(times_of(network, layer, tensor));
    };
    for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
      const double all = times(static_cast<int>(t)), parts = static_cast<double>(plan.parts[t]);
      bytes.numbers += 4 * all * static_cast<double>(plan.shapes[t].elements) * (1 + parts);
      bytes.numbers += 4 * all * static_cast<double>(plan.updated[t]);
      bytes.records += kRecord * all * (2 + parts);
    }
    for (std::size_t o = 0; o < layer.operations.size(); ++o) {
      const double all = times(layer.operations[o].output);
      bytes.numbers += all * (4 * static_cast<double>(plan.statistics[o]) +
                              8 * static_cast<double>(plan.picks[o]));
      bytes.records += kRecord * all * 2;
    }
    rows = std::max(rows, plan.rows);
    moved = std::max(moved, plan.moved);
    for (std::size_t f = 0; f < packed.size(); ++f) packed[f] = std::max(packed[f], plan.packed[f]);
  }
  for (const std::int64_t each : kRowScratch) bytes.numbers += 4 * static_cast<double>(each * rows);
  bytes.numbers += 4 * static_cast<double>(moved + packed[0] + packed[1]);
  return bytes;
}

NetworkPlan network_plan(const Network& network, const NetworkLayout& layout) {
  NetworkPlan plan;
  plan.layers = layer_plans(network, layout);
  std::vector<int> last_of;  // by layer: its last node
  for (std::size_t l = 0; l < network.layers.size(); ++l) {
    const NetworkLayer& layer = network.layers[l];
    for (std::int64_t r = 0; r < layer.repeat; ++r) {
      NetworkNode node{l, {}, false, {}, {}};
      for (const Given& given : layer.given) {
        int source = given.source < 0 ? -1 : last_of[at(given.source)];
        // A repetition reads the one before.
        if (r > 0 && given.tensor == layer.input) source = static_cast<int>(plan.nodes.size()) - 1;
        if (source >= 0) plan.nodes[at(source)].read = true;
        node.sources.push_back(source);
      }
      plan.nodes.push_back(std::move(node));
    }
    last_of.push_back(static_cast<int>(plan.nodes.size()) - 1);
  }
  follow_order(network, layout, plan);
  return plan;
}

}  // namespace weir::cpu
