// Values forward, gradients backward, as the instructions say.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_processor.hpp"

#include <algorithm>
#include <cassert>
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

}  // namespace

NetworkProcessor::NetworkProcessor(const layout::Network& network,
                                   const layout::NetworkLayout& layout, const NetworkPlan& plan,
                                   Board& board, int processor, std::uint64_t seed)
    : network_(network),
      layout_(layout),
      plan_(plan),
      board_(board),
      place_(layout, processor),
      numbers_(network, layout, plan, place_, seed),
      nodes_(numbers_.nodes) {}

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
  numbers_.clear_gradients();
  lap(times_.elementwise);
  for (std::size_t n = 0; n < nodes_.size(); ++n) forward(n);
  for (std::size_t n = nodes_.size(); n-- > 0;) backward(n);
  reduce_weights();
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
    numbers_.give_gradient(n, part_of(output, 0, 0, -1).numbers);
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
      const Axes sharers = sharers_of(layout_, layer.tensors[t]);
      for (GradientPart& part : nodes_[n].gradients[t][0].parts())
        reduce_weight(std::exchange(part.partial, 0), sharers, part.numbers);
      lap(times_.exchanges);
      node_ = n;
      layer_ = &layer;
      static_cast<void>(combined(static_cast<int>(t), 0));
      if (sharers != 0) update(static_cast<int>(t), sharers);
    }
  }
}

// A gradient that processors share: each has its part of the sum in the end, and no more.
void NetworkProcessor::reduce_weight(Axes partial, Axes sharers, std::vector<float>& numbers) {
  if (sharers == 0) return all_reduce(partial, numbers);
  const Axes scattered = partial & sharers;
  if (scattered != 0)
    counts_.exchanged_elements +=
        static_cast<double>(board_.reduce_share(place_, scattered, sharers, numbers));
  if ((partial & ~sharers) == 0) return;
  const SharedPart part = shared_part(layout_, place_, sharers, std::ssize(numbers));
  counts_.exchanged_elements += static_cast<double>(board_.all_reduce(
      place_, partial & ~sharers, numbers.data() + part.begin(), part.size(), Reduction::sum));
}

// A step down the gradient, of this processor's part of a weight; the others' parts come from them.
void NetworkProcessor::update(int weight, Axes sharers) {
  std::vector<float>& updated = nodes_[node_].updated[at(weight)];
  const std::vector<float>&before = nodes_[node_].values[at(weight)][0],
        &gradient = nodes_[node_].gradients[at(weight)][0].all.front().numbers;
  const SharedPart part = shared_part(layout_, place_, sharers, std::ssize(updated));
  for (std::int64_t i = part.begin(); i < part.begin() + part.size(); ++i)
    updated[at(i)] = stepped(before[at(i)], gradient[at(i)]);
  lap(times_.elementwise);
  counts_.exchanged_elements += static_cast<double>(board_.gather_shares(place_, sharers, updated));
  lap(times_.exchanges);
}

void NetworkProcessor::carry_out(const Instruction& i, std::int64_t time) {
  const Operation& o = layer_->operations[at(i.operation)];
  switch (i.what) {
    case Do::forward:
      compute(o, time);
      return lap(times_.elementwise);  // products have been timed
    case Do::make_whole:
      all_reduce(i.axes, nodes_[node_].values[at(i.tensor)][slot(i.tensor, time)]);
      return lap(times_.exchanges);
    case Do::move:
      move(i, time);
      return lap(times_.exchanges);
    case Do::gradient:
      gradient(i, time);
      return lap(times_.elementwise);
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

void NetworkProcessor::all_reduce(Axes axes, std::vector<float>& numbers, Reduction reduction) {
  counts_.exchanged_elements += static_cast<double>(board_.all_reduce(
      place_, axes, numbers.data(), static_cast<std::int64_t>(numbers.size()), reduction));
}

// A move of which a processor has all there already is a copy.
void NetworkProcessor::relocate(const Operation& o, Way way, Axes pending, float* in, float* out) {
  lap(times_.elementwise);
  const auto &read_from = layer_->tensors[at(o.inputs[0])].dimensions,
             &made = layer_->tensors[at(o.output)].dimensions;
  const bool home = way == Way::home;
  // A route goes to the visits, its way back comes from them; gradients go the other way.
  const bool routed = o.act == Act::route || o.act == Act::back;
  const Move move{home ? made : read_from, home ? read_from : made, pending,
                  !routed                          ? Move::Visits::none
                  : (o.act == Act::route) == !home ? Move::Visits::to
                                                   : Move::Visits::from};
  const auto read = static_cast<double>(board_.relocate(place_, move, in, out));
  counts_.exchanged_elements += read;
  lap(read > 0 ? times_.exchanges : times_.elementwise);
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
          [this, split](std::vector<float>& of_rows, Reduction reduction) {
            if (split == 0) return;
            lap(times_.elementwise);
            all_reduce(split, of_rows, reduction);
            lap(times_.exchanges);
          },
          &numbers_.of_rows};
}

NormBlocks NetworkProcessor::norm_blocks(const Operation& o, std::int64_t time) {
  NormBlocks blocks{.in = value(o.inputs[0], time), .centred = o.act == Act::norm};
  if (o.inputs.size() > 1) blocks.gain = value(o.inputs[1], time);
  if (o.inputs.size() > 2) blocks.shift = value(o.inputs[2], time);
  return blocks;
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
      return factors(o, in, value(o.inputs[1], time), out);
    case Act::attention:
      return attend(o, time);
    case Act::turn:
      std::fill_n(out.numbers, out.shape->elements, 0.0F);
      return add_turned(turn_of(o), Turning::forwards, in, out);
    case Act::choose:
      return choose(o.over, in, picks, out);
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

// One step of all, or a block of all of them: the same numbers with the dimension of time in front
// of the others.
void NetworkProcessor::take_step(const Operation& o, std::int64_t time) {
  const NamedBlock all = value(o.inputs[0], 0), one = value(o.output, time);
  each_of_step(*all.shape, *one.shape, o.over, time,
               [&](std::int64_t from, std::int64_t to) { one.numbers[to] = all.numbers[from]; });
}

void NetworkProcessor::stack(const Operation& o) {
  const NamedBlock all = value(o.output, 0);
  for (std::int64_t t = 0; t < network_.dimensions[at(o.over)].size; ++t) {
    const NamedBlock one = value(o.inputs[0], t);
    each_of_step(*all.shape, *one.shape, o.over, t,
                 [&](std::int64_t to, std::int64_t from) { all.numbers[to] = one.numbers[from]; });
  }
}

void NetworkProcessor::move(const Instruction& i, std::int64_t time) {
  const Operation& o = layer_->operations[at(i.operation)];
  const bool carries = o.act == Act::carry;
  if (carries && time + 1 == network_.dimensions[at(o.over)].size) return;
  auto& to = nodes_[node_].values[at(o.output)][slot(o.output, carries ? time + 1 : time)];
  relocate(o, Way::out, i.axes, value(o.inputs[0], time).numbers, to.data());
  if (carries) all_reduce(i.left, to);
}

}  // namespace weir::cpu
