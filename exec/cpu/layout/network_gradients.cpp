// The gradients of a processor's operations.
// SPDX-License-Identifier: Apache-2.0
#include <cassert>
#include <vector>

#include "exec/cpu/layout/kernels/network_attention.hpp"
#include "exec/cpu/layout/kernels/network_kernels.hpp"
#include "exec/cpu/layout/kernels/network_rows.hpp"
#include "exec/cpu/layout/network_processor.hpp"
#include "plan/words/indexed.hpp"

namespace weir::cpu {

using layout::Act;
using layout::Axes;
using layout::Instruction;
using layout::Operation;

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
      return factors(o, out, value(other_factor(o, i.tensor), time), in);
    case Act::attention:
      return attention_gradient(o, i.tensor, out, in, time);
    case Act::turn:
      return add_turned(turn_of(o), Turning::backwards, out, in);
    case Act::choose:
      return add_choose_gradient(
          o.over, nodes_[node_].picks[at(&o - layer_->operations.data())][at(time)], out, in);
    case Act::add:
      return add_to(out, in);
    case Act::apply:
      return add_apply_gradient(o.function, value(i.tensor, time), out, in);
    case Act::glu:
      return add_glu_gradient(o.over, value(i.tensor, time), out, in);
    case Act::step:
      return each_of_step(
          *in.shape, *out.shape, o.over, time,
          [&](std::int64_t to, std::int64_t from) { in.numbers[to] += out.numbers[from]; });
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
    each_of_step(*out.shape, *in.shape, o.over, t,
                 [&](std::int64_t from, std::int64_t to) { in.numbers[to] += out.numbers[from]; });
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
  std::vector<float>& home = numbers_.moved;
  home.resize(elements);
  relocate(o, Way::home, i.axes, out.numbers.data(), home.data());
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
