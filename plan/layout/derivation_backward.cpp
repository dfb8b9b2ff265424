// Backward: what each use hands in, what becomes of the gradients of weights, and what F keeps for
// it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "plan/layout/layer_derivation.hpp"

namespace weir::layout {

using Do = Instruction::Do;

void LayerDerivation::backward(const Operation& o) {
  State& out = state(o.output);
  if (!out.has_gradient) return;
  switch (o.act) {
    case Act::product:
    case Act::weigh:
      return backward_product(o);
    case Act::add:
      return backward_sum(o);
    case Act::gather:
      return backward_gather(o);
    case Act::step:
    case Act::stack:
      if (state(o.inputs[0]).has_gradient) hand_in(o.inputs[0], out.gradient);
      return;
    case Act::carry:
      return;  // when all else is done
    case Act::move:
    case Act::route:
    case Act::back:
      return backward_move(o);
    default:
      break;
  }
  make_gradient_whole(o.output, first_pass(out));
  switch (o.act) {
    case Act::norm:
    case Act::rms_norm:
      backward_norm(o);
      break;
    case Act::softmax:
      keep(o.output, false);
      if (!state(o.inputs[0]).has_gradient) break;
      exchange(Collective::all_reduce, Pass::I, layout_.over[at(o.over)], rows(o, o.inputs[0]),
               o.inputs[0], true, true);
      break;
    case Act::attention:
      return backward_attention(o);
    case Act::loss:
      keep(o.inputs[0], true);
      break;  // its gradient takes its place
    case Act::apply:
    case Act::glu:
      keep(o.inputs[0], false);
      break;
    default:
      break;
  }
  // Of these a choice alone gives a partial sum to its first input, where the places of those
  // chosen are split.
  const Axes chosen = o.act == Act::choose ? summed(dims(o.output), dims(o.inputs[0])) : 0;
  if (state(o.inputs[0]).has_gradient) hand_in(o.inputs[0], chosen);
}

void LayerDerivation::backward_product(const Operation& o) {
  const std::vector<int>& all = o.all;
  State& out = state(o.output);
  Axes partial_factors = 0;
  for (const int input : o.inputs) partial_factors |= state(input).pending;
  // As in the forward: two partial factors make no partial product.
  if ((out.gradient & axes(all)) != 0 || (out.gradient != 0 && partial_factors != 0))
    make_gradient_whole(o.output, first_pass(out));
  for (const int input : o.inputs) {
    if (!is_weight(input) && !state(input).has_gradient) continue;
    Axes partial = out.gradient | summed(all, dims(input));
    for (const int other : o.inputs) {
      // The gradient of one factor reads all the others.
      if (other == input) continue;
      partial |= state(other).pending;
      keep(other, of_weight(input));
    }
    if (o.act == Act::product) share_.multiply_adds[of_weight(input) ? 2 : 1] += work(o);
    hand_in(input, partial);
  }
}

void LayerDerivation::backward_sum(const Operation& o) {
  for (const int input : o.inputs) {
    if (!is_weight(input) && !state(input).has_gradient) continue;
    hand_in(input, state(o.output).gradient | summed(dims(o.output), dims(input)));
  }
}

void LayerDerivation::backward_gather(const Operation& o) {
  std::vector<int> all = dims(o.output);
  all.push_back(o.over);
  hand_in(o.inputs[0], state(o.output).gradient | summed(all, dims(o.inputs[0])));
}

void LayerDerivation::backward_move(const Operation& o) {
  const int input = o.inputs[0];
  State& in = state(input);
  if (!is_weight(input) && !in.has_gradient) return;
  const Axes given = state(o.output).gradient;
  const Ends home = ends(o, true);
  const Pass first = o.act == Act::move ? first_pass(in) : Pass::I;
  const Axes left = relocate(home, given, first, input, true);
  note({Do::move_gradient, operation_, input, given, left});
  if (is_weight(input)) return reduce_weight(input, left);
  in.gradient |= left;
  // W, a pass of its own, moves it again; what came home from experts is kept for it.
  if (o.act != Act::move || !in.in_i || !in.in_w) return;
  static_cast<void>(relocate(home, given, Pass::W, input, true));
  note({Do::move_gradient, operation_, input, given, left, true});
}

// What is not scattered on the way home is made whole there, so that a step begins without
// partial sums in this direction too.
void LayerDerivation::backward_carry(const Operation& o) {
  const int input = o.inputs[0];
  if (!state(o.output).has_gradient) return;
  carries_ = true;
  const Axes left = relocate(ends(o, true), state(o.output).gradient, Pass::I, input, true);
  exchange(Collective::all_reduce, Pass::I, left, block(dims(input)), input, true);
  note({Do::move_gradient, operation_, input, state(o.output).gradient, left});
  carries_ = false;
}

void LayerDerivation::backward_norm(const Operation& o) {
  const int input = o.inputs[0];
  keep(input, false);
  keep_statistics(input, rows(o, input) * statistics(o.act));
  // Gains alone need no more than the statistics that F has kept.
  if (state(input).has_gradient) {
    exchange(Collective::all_reduce, Pass::I, layout_.over[at(o.over)],
             rows(o, input) * statistics(o.act), input, true, true);
    if (o.inputs.size() > 1) keep(o.inputs[1], false);
  }
  for (std::size_t i = 1; i < o.inputs.size(); ++i)
    hand_in(o.inputs[i], summed(dims(o.output), dims(o.inputs[i])));
}

// The gradients of queries, keys and values: scores and probabilities, and twice as many
// products.
void LayerDerivation::backward_attention(const Operation& o) {
  const std::vector<int>& all = o.all;
  share_.multiply_adds[1] += 2 * attention_work(o);
  for (const int input : o.inputs) {
    keep(input, false);
    hand_in(input, summed(all, dims(input)));
  }
  keep(o.output, false);
  std::vector<int> per_row = dims(o.inputs[0]);
  per_row.pop_back();  // scores are summed over the last dimension of queries
  keep_statistics(o.output, block(per_row));
}

void LayerDerivation::hand_in(int tensor, Axes partial) {
  note({Do::gradient, operation_, tensor, partial});
  if (!is_weight(tensor)) {
    state(tensor).gradient |= partial;
    return;
  }
  reduce_weight(tensor, partial);
}

void LayerDerivation::reduce_weight(int tensor, Axes partial) {
  // A tied weight's gradients are added to its owner's, and reduced with those.
  const NetworkTensor& weight = layer_.tensors[at(tensor)];
  if (weight.role == Role::tied) return;
  // In fp32, once a step, when the micro-batches have added theirs up; or each of these adds to
  // the sums that its processors share. What is left goes by parts, over the other processors.
  const Axes sharers = sharers_of(layout_, weight), scattered = partial & sharers;
  const double part = block(dims(tensor)) / static_cast<double>(members(layout_, sharers));
  exchange(Collective::reduce_scatter, layout_.gradients != 0 ? Pass::W : Pass::step, scattered,
           part * static_cast<double>(members(layout_, scattered)), tensor, true, true);
  exchange(Collective::all_reduce, Pass::step, partial & ~sharers, part, tensor, true, true);
}

void LayerDerivation::hold(const NetworkTensor& weight) {
  const double elements = block(weight.dimensions);
  share_.weights += elements;
  const Axes sharers = sharers_of(layout_, weight);
  auto held = std::ranges::lower_bound(share_.held, sharers, {}, &HeldWeights::sharers);
  if (held == share_.held.end() || held->sharers != sharers)
    held = share_.held.insert(held, {sharers, 0});
  held->elements += elements;
}

// Each processor has updated its part of a weight.
void LayerDerivation::gather_updated() {
  for (std::size_t t = 0; t < layer_.tensors.size(); ++t) {
    const NetworkTensor& weight = layer_.tensors[t];
    if (weight.role != Role::weight) continue;
    exchange(Collective::all_gather, Pass::step, sharers_of(layout_, weight),
             block(weight.dimensions), static_cast<int>(t), false);
  }
}

// What the backward reads of F. A move's result comes again from its input.
void LayerDerivation::keep(int tensor, bool for_w) {
  if (is_weight(tensor)) return;  // it is there anyway
  State& s = state(tensor);
  const Operation* by = s.made_by < 0 ? nullptr : &layer_.operations[at(s.made_by)];
  // What is chosen is made again from what it was chosen from, and a step is one of all.
  if (by != nullptr && by->act == Act::choose) return keep(by->inputs[0], for_w);
  if (by != nullptr && by->act == Act::step && state(by->inputs[0]).pending == 0)
    return keep(by->inputs[0], for_w);
  if (by != nullptr && by->act == Act::move && state(by->inputs[0]).pending == 0) {
    bool& again = for_w ? s.again_w : s.again_i;
    if (!again) {
      static_cast<void>(relocate(ends(*by, false), 0, for_w ? Pass::W : Pass::I, tensor, false));
      note({Do::move, s.made_by, tensor, 0, 0, true});
    }
    again = true;
    return keep(by->inputs[0], for_w);
  }
  // Kept once, as long as its last reader wants it.
  for (Kept& kept : share_.kept) {
    if (kept.tensor != tensor || kept.statistics) continue;
    kept.until_w |= for_w;
    return;
  }
  Kept kept{tensor, all_steps(tensor, block(dims(tensor))), false, for_w};
  for (const Given& given : layer_.given) {
    if (given.tensor != tensor) continue;
    kept.first = !given.elsewhere;
    kept.others = tensor == layer_.input;
  }
  share_.kept.push_back(kept);
}

}  // namespace weir::layout
