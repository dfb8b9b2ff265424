// Forward: where partial sums arise, how far they go, and what makes them whole.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "plan/layout/layer_derivation.hpp"

namespace weir::layout {

using Do = Instruction::Do;

void LayerDerivation::forward(const Operation& o) {
  State& out = state(o.output);
  switch (o.act) {
    case Act::product:
    case Act::weigh:
      return forward_product(o);
    case Act::add:
      return forward_sum(o);
    case Act::gather:
      // Each processor picks from its own part of the table, and the picks are added up.
      out.pending = layout_.over[at(o.over)];
      return;
    case Act::step:
    case Act::stack:
      out.pending = state(o.inputs[0]).pending;
      return;
    case Act::carry:
      return forward_carry(o);
    case Act::move:
    case Act::route:
    case Act::back:
      out.pending = relocate(ends(o, false), state(o.inputs[0]).pending, Pass::F, o.output, false);
      note({Do::move, operation_, o.output, state(o.inputs[0]).pending, out.pending});
      return;
    default:
      break;
  }
  // What is not linear needs its inputs whole.
  for (const int input : o.inputs) make_whole(input, Pass::F);
  forward_rows(o);
}

// Whole from the beginning of each step, as the zeros of the first are.
void LayerDerivation::forward_carry(const Operation& o) {
  carries_ = true;
  const Axes left = relocate(ends(o, false), state(o.inputs[0]).pending, Pass::F, o.output, false);
  exchange(Collective::all_reduce, Pass::F, left, block(dims(o.output)), o.output, false);
  note({Do::move, operation_, o.output, state(o.inputs[0]).pending, left});
  carries_ = false;
}

void LayerDerivation::forward_product(const Operation& o) {
  const std::vector<int>& all = o.all;
  const Axes used = axes(all);
  bool one_is_partial = false;
  for (const int input : o.inputs) {
    // A product of two partial sums is no partial sum of the product.
    if (one_is_partial || (state(input).pending & used) != 0) make_whole(input, Pass::F);
    one_is_partial |= state(input).pending != 0;
  }
  Axes pending = summed(all, dims(o.output));
  for (const int input : o.inputs) pending |= state(input).pending;
  state(o.output).pending = pending;
  if (o.act == Act::product) share_.multiply_adds[0] += work(o);
}

void LayerDerivation::forward_sum(const Operation& o) {
  Axes common = ~Axes{0};
  // A sum is partial where all summands are; what is not common is made whole before.
  for (const int input : o.inputs) common &= state(input).pending;
  for (const int input : o.inputs) make_whole(input, Pass::F, ~common);
  state(o.output).pending = common;
}

// What the acts over rows exchange where these are split, and the products of an attention.
void LayerDerivation::forward_rows(const Operation& o) {
  if (o.act == Act::attention) {
    share_.multiply_adds[0] += attention_work(o);
    return;
  }
  if (o.over < 0) return;
  const Axes split = layout_.over[at(o.over)];
  const double n = rows(o, o.inputs[0]);
  // A loss reduces its maximum, its sum and the target's logit; a softmax the first two
  // (docs/theory.md 11).
  const int times = o.act == Act::loss ? 3 : o.act == Act::softmax ? 2 : 0;
  for (int i = 0; i < times; ++i)
    exchange(Collective::all_reduce, Pass::F, split, n, o.output, false, true);
  if (o.act == Act::norm || o.act == Act::rms_norm) {
    exchange(Collective::all_reduce, Pass::F, split, n * statistics(o.act), o.output, false, true);
  }
}

}  // namespace weir::layout
