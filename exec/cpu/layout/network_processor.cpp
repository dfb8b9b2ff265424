// Values forward, gradients backward, as the instructions say.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_processor.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "exec/cpu/layout/core_clock.hpp"
#include "plan/words/indexed.hpp"

namespace weir::cpu {
namespace {

using layout::Act;
using layout::Axes;
using layout::Instruction;
using layout::Operation;
using layout::Role;
using Do = Instruction::Do;

// Numbers that follow from a key and an index alone (SplitMix64's finaliser, Steele et al. 2014).
std::uint64_t mixed(std::uint64_t key, std::int64_t index) {
  std::uint64_t x = key * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(index) + 1;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

std::uint64_t key_of(std::uint64_t seed, std::size_t node, int tensor, std::int64_t time) {
  return mixed(mixed(mixed(seed, static_cast<std::int64_t>(node)), tensor), time);
}

// Weights shrink with their number, so that sums over them stay of the size of what they sum: by
// the power of two nearest to the fourth root of it, so that no bit of a whole number is lost.
int halvings_of(const BlockShape& whole) {
  return static_cast<int>(std::lround(std::log2(static_cast<double>(whole.elements)) / 4));
}

}  // namespace

NetworkProcessor::NetworkProcessor(const layout::Network& network,
                                   const layout::NetworkLayout& layout, const NetworkPlan& plan,
                                   Board& board, int processor, std::uint64_t seed)
    : network_(network),
      layout_(layout),
      plan_(plan),
      board_(board),
      place_(layout, processor),
      seed_(seed) {
  nodes_.resize(plan.nodes.size());
  for (std::size_t n = 0; n < nodes_.size(); ++n) make_blocks(n);
  for (std::size_t n = 0; n < nodes_.size(); ++n) give_weights(n);
  const auto most = [&plan](const auto& of_layer) {
    std::int64_t all = 0;
    for (const LayerPlan& layer : plan.layers) all = std::max(all, of_layer(layer));
    return at(all);
  };
  const std::size_t rows = most([](const LayerPlan& layer) { return layer.rows; });
  for (std::size_t s = 0; s < of_rows_.size(); ++s) of_rows_[s].reserve(at(kRowScratch[s]) * rows);
  moved_.reserve(most([](const LayerPlan& layer) { return layer.moved; }));
  for (std::size_t f = 0; f < packed_.size(); ++f)
    packed_[f].numbers.reserve(most([f](const LayerPlan& layer) { return layer.packed[f]; }));
}

void NetworkProcessor::make_blocks(std::size_t n) {
  const LayerPlan& plan = plan_.layers[plan_.nodes[n].layer];
  const layout::NetworkLayer& layer = network_.layers[plan_.nodes[n].layer];
  NodeBlocks& blocks = nodes_[n];
  for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
    const auto times = static_cast<std::size_t>(times_of(network_, layer, static_cast<int>(t)));
    const std::vector<float> zeros(at(plan.shapes[t].elements), 0.0F);
    blocks.values.emplace_back(times, zeros);
    blocks.gradients.emplace_back(
        times, GradientParts{std::vector<GradientPart>(plan.parts[t], {0, -1, zeros})});
  }
  for (std::size_t i = 0; i < layer.operations.size(); ++i) {
    const Operation& o = layer.operations[i];
    const std::int64_t times = times_of(network_, layer, o.output);
    blocks.statistics.emplace_back(at(times), std::vector<float>(at(plan.statistics[i]), 0.0F));
    blocks.picks.emplace_back(at(times));
    if (o.act != Act::gather && o.act != Act::loss) continue;
    for (std::int64_t s = 0; s < times; ++s) blocks.picks[i][at(s)] = picks(n, o, s);
  }
}

// What no operation makes: weights, tied ones as their owners have them, and data.
void NetworkProcessor::give_weights(std::size_t n) {
  const NetworkNode& node = plan_.nodes[n];
  const LayerPlan& plan = plan_.layers[node.layer];
  const layout::NetworkLayer& layer = network_.layers[node.layer];
  const layout::NetworkLayout nowhere{"", {}, std::vector<Axes>(network_.dimensions.size(), 0)};
  for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
    // A tied weight's numbers are those of the owner, which has one repetition.
    std::size_t from = n;
    int tensor = static_cast<int>(t);
    if (plan.owners[t] >= 0) {
      const auto owner = std::ranges::find(plan_.nodes, at(plan.owners[t]), &NetworkNode::layer);
      from = at(owner - plan_.nodes.begin());
      tensor = plan.owned[t];
    }
    if (!is_weight(layer.tensors[t])) continue;
    const BlockShape whole(network_, nowhere, layer.tensors[t].dimensions);
    fill(nodes_[n].values[t][0], layer.tensors[t], key_of(seed_, from, tensor, 0),
         halvings_of(whole));
  }
  for (std::size_t g = 0; g < layer.given.size(); ++g) {
    const int tensor = layer.given[g].tensor;
    if (node.sources[g] >= 0) continue;
    fill(nodes_[n].values[at(tensor)][0], layer.tensors[at(tensor)], key_of(seed_, n, tensor, 0),
         0);
  }
}

double NetworkProcessor::held_bytes() const {
  std::size_t floats = moved_.capacity(), integers = 0;
  for (const PackingRoom& room : packed_) floats += room.numbers.capacity();
  for (const auto& sums : of_rows_) floats += sums.capacity();
  for (const NodeBlocks& blocks : nodes_) {
    for (const auto& of_tensor : blocks.values) {
      for (const auto& one : of_tensor) floats += one.capacity();
    }
    for (const auto& of_tensor : blocks.gradients) {
      for (const GradientParts& parts : of_tensor) {
        for (const GradientPart& part : parts.all) floats += part.numbers.capacity();
      }
    }
    for (const auto& of_operation : blocks.statistics) {
      for (const auto& one : of_operation) floats += one.capacity();
    }
    for (const auto& of_operation : blocks.picks) {
      for (const auto& one : of_operation) integers += one.capacity();
    }
  }
  return 4 * static_cast<double>(floats) + 8 * static_cast<double>(integers);
}

void NetworkProcessor::fill(std::vector<float>& numbers, const layout::NetworkTensor& tensor,
                            std::uint64_t key, int halvings) const {
  walk_whole(network_, layout_, place_, tensor.dimensions, [&](std::int64_t i, std::int64_t whole) {
    const auto number = static_cast<float>(mixed(key, whole) % 5) - 2;
    numbers[at(i)] = std::ldexp(number, -halvings);
  });
}

void NetworkProcessor::lap(Seconds& to) {
  const Seconds now = core_time();
  to += now - before_;
  before_ = now;
}

// ---- a step of training ----

void NetworkProcessor::step() {
  counts_ = {};
  times_ = {};
  before_ = core_time();
  reset();
  lap(times_.elementwise);
  for (std::size_t n = 0; n < nodes_.size(); ++n) forward(n);
  for (std::size_t n = nodes_.size(); n-- > 0;) backward(n);
  reduce_weights();
}

void NetworkProcessor::reset() {
  for (NodeBlocks& blocks : nodes_) {
    for (auto& of_tensor : blocks.gradients) {
      for (GradientParts& parts : of_tensor) {
        for (GradientPart& part : parts.parts()) std::ranges::fill(part.numbers, 0.0F);
        parts.used = 0;
      }
    }
  }
}

// What the node is given by others.
void NetworkProcessor::give_values(std::size_t n) {
  const NetworkNode& node = plan_.nodes[n];
  for (std::size_t g = 0; g < layer_->given.size(); ++g) {
    if (node.sources[g] < 0) continue;
    const layout::NetworkLayer& source = network_.layers[plan_.nodes[at(node.sources[g])].layer];
    nodes_[n].values[at(layer_->given[g].tensor)][0] =
        nodes_[at(node.sources[g])].values[at(source.operations.back().output)][0];
  }
}

void NetworkProcessor::forward(std::size_t n) {
  node_ = n;
  layer_ = &network_.layers[plan_.nodes[n].layer];
  const Phases& phases = plan_.layers[plan_.nodes[n].layer].forward;
  give_values(n);
  lap(times_.elementwise);
  for (const Instruction& i : phases.before) carry_out(i, 0);
  const std::int64_t steps = layer_->time < 0 ? 0 : network_.dimensions[at(layer_->time)].size;
  for (std::int64_t t = 0; t < steps; ++t) {
    for (const Instruction& i : phases.step) carry_out(i, t);
  }
  for (const Instruction& i : phases.behind) carry_out(i, 0);
}

void NetworkProcessor::backward(std::size_t n) {
  node_ = n;
  layer_ = &network_.layers[plan_.nodes[n].layer];
  const Phases& phases = plan_.layers[plan_.nodes[n].layer].backward;
  const int output = layer_->operations.back().output;
  // What nobody reads ends the network: its gradient is given.
  if (!plan_.nodes[n].read) {
    fill(part_of(output, 0, 0, -1).numbers, layer_->tensors[at(output)],
         key_of(seed_, n, output, 1), 2);
    lap(times_.elementwise);
  }
  for (const Instruction& i : phases.behind) carry_out(i, 0);
  const std::int64_t steps = layer_->time < 0 ? 0 : network_.dimensions[at(layer_->time)].size;
  for (std::int64_t t = steps; t-- > 0;) {
    for (const Instruction& i : phases.step) carry_out(i, t);
  }
  for (const Instruction& i : phases.before) carry_out(i, 0);
  hand_on(n);
  lap(times_.elementwise);
}

// Gradients of what was given, to who made it.
void NetworkProcessor::hand_on(std::size_t n) {
  for (std::size_t g = 0; g < layer_->given.size(); ++g) {
    const int tensor = layer_->given[g].tensor, source = plan_.nodes[n].sources[g];
    if (source < 0 || nodes_[n].gradients[at(tensor)][0].used == 0) continue;
    const GradientPart& given = combined(tensor, 0);
    assert(given.partial == 0 && "a layer's reader knows nothing of partial sums");
    const std::size_t before = std::exchange(node_, at(source));
    const layout::NetworkLayer* here =
        std::exchange(layer_, &network_.layers[plan_.nodes[at(source)].layer]);
    GradientPart& sum = part_of(layer_->operations.back().output, 0, 0, -1);
    for (std::size_t i = 0; i < sum.numbers.size(); ++i) sum.numbers[i] += given.numbers[i];
    node_ = before;
    layer_ = here;
  }
}

// Once a step. A tied weight's gradients are added to those of its owner that are partial sums over
// the same processors, before these are reduced.
void NetworkProcessor::reduce_weights() {
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    const LayerPlan& plan = plan_.layers[plan_.nodes[n].layer];
    for (std::size_t t = 0; t < plan.owners.size(); ++t) {
      if (plan.owners[t] < 0) continue;
      const auto owner = std::ranges::find(plan_.nodes, at(plan.owners[t]), &NetworkNode::layer);
      const auto owned =
          nodes_[at(owner - plan_.nodes.begin())].gradients[at(plan.owned[t])][0].parts();
      for (const GradientPart& part : nodes_[n].gradients[t][0].parts()) {
        auto to = std::ranges::find(owned, part.partial, &GradientPart::partial);
        assert(to != owned.end() && "not_run has said so");
        for (std::size_t i = 0; i < part.numbers.size(); ++i) to->numbers[i] += part.numbers[i];
      }
    }
  }
  lap(times_.elementwise);
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    const layout::NetworkLayer& layer = network_.layers[plan_.nodes[n].layer];
    for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
      if (layer.tensors[t].role != Role::weight) continue;
      for (GradientPart& part : nodes_[n].gradients[t][0].parts())
        all_reduce(std::exchange(part.partial, 0), part.numbers);
      lap(times_.exchanges);
      node_ = n;
      layer_ = &layer;
      static_cast<void>(combined(static_cast<int>(t), 0));
    }
  }
}

void NetworkProcessor::carry_out(const Instruction& i, std::int64_t time) {
  const Operation& o = layer_->operations[at(i.operation)];
  switch (i.what) {
    case Do::forward:
      compute(o, time);
      return lap(o.act == Act::product ? times_.products : times_.elementwise);
    case Do::make_whole:
      all_reduce(i.axes, nodes_[node_].values[at(i.tensor)][slot(i.tensor, time)]);
      return lap(times_.exchanges);
    case Do::move:
      move(i, time);
      return lap(times_.exchanges);
    case Do::gradient:
      gradient(i, time);
      return lap(o.act == Act::product ? times_.products : times_.elementwise);
    case Do::whole_gradient: {
      GradientPart& part = combined(i.tensor, time);
      assert(part.partial == i.axes && "as derived");
      all_reduce(std::exchange(part.partial, 0), part.numbers);
      return lap(times_.exchanges);
    }
    case Do::move_gradient:
      move_gradient(i, time);
      return lap(times_.exchanges);
  }
}

void NetworkProcessor::all_reduce(Axes axes, std::vector<float>& numbers) {
  counts_.exchanged_elements += static_cast<double>(
      board_.all_reduce(place_, axes, numbers.data(), static_cast<std::int64_t>(numbers.size())));
}

// ---- blocks ----

std::size_t NetworkProcessor::slot(int tensor, std::int64_t time) const {
  return nodes_[node_].values[at(tensor)].size() == 1 ? 0 : at(time);
}

NamedBlock NetworkProcessor::value(int tensor, std::int64_t time) {
  return {&plan_.layers[plan_.nodes[node_].layer].shapes[at(tensor)],
          nodes_[node_].values[at(tensor)][slot(tensor, time)].data()};
}

GradientPart& NetworkProcessor::combined(int tensor, std::int64_t time) {
  GradientParts& made = nodes_[node_].gradients[at(tensor)][slot(tensor, time)];
  const std::span<GradientPart> parts = made.parts();
  if (parts.empty()) return part_of(tensor, time, 0, -1);
  Axes all = 0;
  for (const GradientPart& part : parts) all |= part.partial;
  for (GradientPart& part : parts) {
    // What every processor has whole would be added up once for each.
    if (!place_.first(all & ~part.partial)) std::ranges::fill(part.numbers, 0.0F);
  }
  GradientPart& sum = parts.front();
  for (std::size_t p = 1; p < parts.size(); ++p) {
    for (std::size_t i = 0; i < sum.numbers.size(); ++i) sum.numbers[i] += parts[p].numbers[i];
    std::ranges::fill(parts[p].numbers, 0.0F);
  }
  made.used = 1;
  sum.partial = all;
  lap(times_.elementwise);
  return sum;
}

GradientPart& NetworkProcessor::part_of(int tensor, std::int64_t time, Axes partial,
                                        int operation) {
  GradientParts& made = nodes_[node_].gradients[at(tensor)][slot(tensor, time)];
  for (GradientPart& part : made.parts()) {
    if (part.partial == partial && part.operation == operation) return part;
  }
  assert(made.used < made.all.size() && "the plan has counted them");
  GradientPart& part = made.all[made.used++];
  part.partial = partial;
  part.operation = operation;
  return part;
}

RowWork NetworkProcessor::rows(const Operation& o, const layout::NetworkTensor& tensor) {
  const Axes split = layout_.over[at(o.over)];
  const BlockShape block(network_, layout_, tensor.dimensions);
  return {o.over, network_.dimensions[at(o.over)].size, place_.part(split) * block.size(o.over),
          [this, split](std::vector<float>& of_rows, bool largest) {
            counts_.exchanged_elements += static_cast<double>(board_.all_reduce(
                place_, split, of_rows.data(), static_cast<std::int64_t>(of_rows.size()), largest));
          },
          &of_rows_};
}

NormBlocks NetworkProcessor::norm_blocks(const Operation& o, std::int64_t time) {
  NormBlocks blocks{.in = value(o.inputs[0], time), .centred = o.act == Act::norm};
  if (o.inputs.size() > 1) blocks.gain = value(o.inputs[1], time);
  if (o.inputs.size() > 2) blocks.shift = value(o.inputs[2], time);
  return blocks;
}

// The integers that a gather or a loss is given, by row of its output: of the whole tensor's rows,
// so that every layout has the same.
std::vector<std::int64_t> NetworkProcessor::picks(std::size_t n, const Operation& o,
                                                  std::int64_t time) const {
  const layout::NetworkLayer& layer = network_.layers[plan_.nodes[n].layer];
  std::vector<int> left = layer.tensors[at(o.output)].dimensions;
  if (o.act == Act::gather) {
    for (const int d : layer.tensors[at(o.inputs[0])].dimensions) std::erase(left, d);
  }
  const std::uint64_t key = key_of(seed_, n, o.output, time + 2);
  const auto most = static_cast<std::uint64_t>(network_.dimensions[at(o.over)].size);
  std::vector<std::int64_t> picks;
  picks.reserve(at(BlockShape(network_, layout_, left).elements));
  walk_whole(network_, layout_, place_, left, [&](std::int64_t, std::int64_t whole) {
    picks.push_back(static_cast<std::int64_t>(mixed(key, whole) % most));
  });
  return picks;
}

// ---- forward ----

void NetworkProcessor::compute(const Operation& o, std::int64_t time) {
  const NamedBlock out = value(o.output, time), in = value(o.inputs[0], time);
  const std::size_t index = at(&o - layer_->operations.data());
  auto& statistics = nodes_[node_].statistics[index][at(time)];
  const auto& picks = nodes_[node_].picks[index][at(time)];
  switch (o.act) {
    case Act::product:
    case Act::weigh:
      std::fill_n(out.numbers, out.shape->elements, 0.0F);
      return multiply(o, in, value(o.inputs[1], time), out);
    case Act::add:
      std::fill_n(out.numbers, out.shape->elements, 0.0F);
      for (const int input : o.inputs) add_to(value(input, time), out);
      return;
    case Act::apply:
      return apply(o.function, in, out);
    case Act::glu:
      return glu(o.over, in, out);
    case Act::norm:
    case Act::rms_norm:
      return norm(rows(o, layer_->tensors[at(o.inputs[0])]), norm_blocks(o, time), out, statistics);
    case Act::softmax:
      return softmax(rows(o, layer_->tensors[at(o.inputs[0])]), in, out);
    case Act::loss:
      return loss(rows(o, layer_->tensors[at(o.inputs[0])]), in, picks, out, statistics);
    case Act::gather:
      return gather(rows(o, layer_->tensors[at(o.inputs[0])]), in, picks, out);
    case Act::step:
      return take_step(o, time);
    case Act::stack:
      return stack(o);
    default:
      assert(false && "not_run has said so, or a move is no computation");
  }
}

// What is copied and cleared before is no multiply-add: the rate of products does not know it.
void NetworkProcessor::multiply(const Operation& o, const NamedBlock& a, const NamedBlock& b,
                                const NamedBlock& c) {
  const NamedBlock left = packed(a, *c.shape, packed_[0]), right = packed(b, *c.shape, packed_[1]);
  lap(times_.elementwise);
  if (o.act == Act::product) counts_.multiply_adds += block_elements(network_, layout_, o.all);
  add_product(left, right, c);
}

// One step of all, or a block of all of them: the same numbers with the dimension of time in front
// of the others.
void NetworkProcessor::take_step(const Operation& o, std::int64_t time) {
  const NamedBlock all = value(o.inputs[0], 0), one = value(o.output, time);
  const std::int64_t begin = time * all.shape->stride(o.over);
  walk<2>(one.shape->dimensions, {all.shape, one.shape},
          [&](const std::array<std::int64_t, 2>& at) {
            one.numbers[at[1]] = all.numbers[begin + at[0]];
          });
}

void NetworkProcessor::stack(const Operation& o) {
  const NamedBlock all = value(o.output, 0);
  for (std::int64_t t = 0; t < network_.dimensions[at(o.over)].size; ++t) {
    const NamedBlock one = value(o.inputs[0], t);
    const std::int64_t begin = t * all.shape->stride(o.over);
    walk<2>(one.shape->dimensions, {all.shape, one.shape},
            [&](const std::array<std::int64_t, 2>& at) {
              all.numbers[begin + at[0]] = one.numbers[at[1]];
            });
  }
}

void NetworkProcessor::move(const Instruction& i, std::int64_t time) {
  const Operation& o = layer_->operations[at(i.operation)];
  const bool carries = o.act == Act::carry;
  if (carries && time + 1 == network_.dimensions[at(o.over)].size) return;
  auto& to = nodes_[node_].values[at(o.output)][slot(o.output, carries ? time + 1 : time)];
  counts_.exchanged_elements += static_cast<double>(board_.relocate(
      place_, layer_->tensors[at(o.inputs[0])].dimensions, layer_->tensors[at(o.output)].dimensions,
      i.axes, value(o.inputs[0], time).numbers, to.data()));
  if (carries) all_reduce(i.left, to);
}

// ---- backward ----

void NetworkProcessor::gradient(const Instruction& i, std::int64_t time) {
  const Operation& o = layer_->operations[at(i.operation)];
  if (o.act == Act::stack) return stack_gradient(i);
  const LayerPlan& plan = plan_.layers[plan_.nodes[node_].layer];
  const NamedBlock out{&plan.shapes[at(o.output)], combined(o.output, time).numbers.data()};
  const int of = is_weight(layer_->tensors[at(i.tensor)]) ? i.operation : -1;
  const NamedBlock in{&plan.shapes[at(i.tensor)],
                      part_of(i.tensor, time, i.axes, of).numbers.data()};
  switch (o.act) {
    case Act::product:
    case Act::weigh:
      return multiply(o, out, value(other_factor(o, i.tensor), time), in);
    case Act::add:
      return add_to(out, in);
    case Act::apply:
      return add_apply_gradient(o.function, value(i.tensor, time), out, in);
    case Act::glu:
      return add_glu_gradient(o.over, value(i.tensor, time), out, in);
    case Act::step: {
      const std::int64_t begin = time * in.shape->stride(o.over);
      walk<2>(out.shape->dimensions, {out.shape, in.shape},
              [&](const std::array<std::int64_t, 2>& at) {
                in.numbers[begin + at[1]] += out.numbers[at[0]];
              });
      return;
    }
    default:
      return row_gradient(o, i.tensor, out, in, time);
  }
}

void NetworkProcessor::row_gradient(const Operation& o, int tensor, const NamedBlock& out,
                                    const NamedBlock& in, std::int64_t time) {
  const RowWork work = rows(o, layer_->tensors[at(o.inputs[0])]);
  const std::size_t index = at(&o - layer_->operations.data());
  const auto& statistics = nodes_[node_].statistics[index][at(time)];
  const auto& picks = nodes_[node_].picks[index][at(time)];
  switch (o.act) {
    case Act::norm:
    case Act::rms_norm:
      if (tensor == o.inputs[0])
        return add_norm_gradient(work, norm_blocks(o, time), out, statistics, in);
      return add_gain_gradient(work, norm_blocks(o, time), out, statistics, tensor == o.inputs[1],
                               in);
    case Act::softmax:
      return add_softmax_gradient(work, value(o.output, time), out, in);
    case Act::loss:
      return add_loss_gradient(work, value(tensor, time), picks, out, statistics, in);
    case Act::gather:
      return add_gather_gradient(work, picks, out, in);
    default:
      assert(false && "not_run has said so");
  }
}

void NetworkProcessor::stack_gradient(const Instruction& i) {
  const Operation& o = layer_->operations[at(i.operation)];
  const LayerPlan& plan = plan_.layers[plan_.nodes[node_].layer];
  const NamedBlock out{&plan.shapes[at(o.output)], combined(o.output, 0).numbers.data()};
  for (std::int64_t t = 0; t < network_.dimensions[at(o.over)].size; ++t) {
    const NamedBlock in{&plan.shapes[at(i.tensor)],
                        part_of(i.tensor, t, i.axes, -1).numbers.data()};
    const std::int64_t begin = t * out.shape->stride(o.over);
    walk<2>(in.shape->dimensions, {out.shape, in.shape},
            [&](const std::array<std::int64_t, 2>& at) {
              in.numbers[at[1]] += out.numbers[begin + at[0]];
            });
  }
}

void NetworkProcessor::move_gradient(const Instruction& i, std::int64_t time) {
  const Operation& o = layer_->operations[at(i.operation)];
  const bool carries = o.act == Act::carry;
  // The first step's state came from nowhere.
  if (carries && time == 0) return;
  GradientPart& out = combined(o.output, time);
  assert(out.partial == i.axes && "as derived");
  const std::size_t elements =
      at(plan_.layers[plan_.nodes[node_].layer].shapes[at(i.tensor)].elements);
  std::vector<float>& home = moved_;
  home.resize(elements);
  counts_.exchanged_elements += static_cast<double>(board_.relocate(
      place_, layer_->tensors[at(o.output)].dimensions, layer_->tensors[at(i.tensor)].dimensions,
      i.axes, out.numbers.data(), home.data()));
  if (carries) all_reduce(i.left, home);
  lap(times_.exchanges);
  // W moves it a second time, to the same numbers.
  if (i.again) return;
  GradientPart& in = part_of(i.tensor, carries ? time - 1 : time, carries ? Axes{0} : i.left,
                             is_weight(layer_->tensors[at(i.tensor)]) ? i.operation : -1);
  for (std::size_t n = 0; n < elements; ++n) in.numbers[n] += home[n];
  lap(times_.elementwise);
}

}  // namespace weir::cpu
