// The walk itself, which gradients there are and which pass reads them, and what all its steps ask.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/layer_derivation.hpp"

#include <algorithm>

namespace weir::layout {

using Do = Instruction::Do;

LayerShare LayerDerivation::derive() {
  for (std::size_t o = 0; o < layer_.operations.size(); ++o)
    states_[at(layer_.operations[o].output)].made_by = static_cast<int>(o);
  for (std::size_t t = 0; t < layer_.tensors.size(); ++t) {
    const NetworkTensor& tensor = layer_.tensors[t];
    if (tensor.role == Role::weight) hold(tensor);
  }
  find_gradients();
  for (const Operation& operation : layer_.operations) {
    operation_ = static_cast<int>(&operation - layer_.operations.data());
    forward(operation);
    if (!moves(operation.act))
      note({Do::forward, operation_, operation.output, state(operation.output).pending});
  }
  // The next layer knows nothing of partial sums.
  make_whole(layer_.operations.back().output, Pass::F);
  find_passes();
  for (std::size_t o = layer_.operations.size(); o-- > 0;) {
    operation_ = static_cast<int>(o);
    backward(layer_.operations[o]);
  }
  // All that reads a state has been: its gradient goes to the step before.
  for (const Operation& operation : layer_.operations) {
    operation_ = static_cast<int>(&operation - layer_.operations.data());
    if (operation.act == Act::carry) backward_carry(operation);
  }
  for (const Given& given : layer_.given) {
    if (state(given.tensor).has_gradient) make_gradient_whole(given.tensor, Pass::I);
  }
  gather_updated();
  return std::move(share_);
}

// A weight, or one as it was moved to where it is read.
bool LayerDerivation::of_weight(int tensor) {
  const int by = state(tensor).made_by;
  if (by < 0) return is_weight(tensor);
  const Operation& o = layer_.operations[at(by)];
  return o.act == Act::move && is_weight(o.inputs[0]);
}

// Mesh dimensions of what `of` has and `kept` lacks: a sum over those is partial.
Axes LayerDerivation::summed(const std::vector<int>& of, const std::vector<int>& kept) const {
  Axes over = 0;
  for (const int d : of) {
    if (!has_dimension(kept, d)) over |= layout_.over[at(d)];
  }
  return over;
}

void LayerDerivation::exchange(Collective collective, Pass pass, Axes over, double elements,
                               int tensor, bool gradient, bool fp32) {
  if (over == 0) return;
  const std::int64_t times = carries_ ? steps() - 1 : pass == Pass::step ? 1 : times_of(tensor);
  if (times == 0) return;
  const bool of_weight = gradient && is_weight(tensor);
  share_.exchanges.push_back(
      {collective, pass, over, elements, fp32 || of_weight, tensor, gradient, times});
}

// Multiply-adds of all steps of a product.
double LayerDerivation::work(const Operation& o) const {
  return block(o.all) * static_cast<double>(times_of(o.output));
}

// Of an attention: queries by keys, and shares by values.
double LayerDerivation::attention_work(const Operation& o) const {
  const AttentionProducts products = attention_products(layer_, o);
  return (block(products.scores) + block(products.sums)) * static_cast<double>(times_of(o.output));
}

void LayerDerivation::make_whole(int tensor, Pass pass, Axes of) {
  Axes& pending = state(tensor).pending;
  exchange(Collective::all_reduce, pass, pending & of, block(dims(tensor)), tensor, false);
  if ((pending & of) != 0) note({Do::make_whole, operation_, tensor, pending & of});
  pending &= ~of;
}

void LayerDerivation::make_gradient_whole(int tensor, Pass pass) {
  State& s = state(tensor);
  exchange(Collective::all_reduce, pass, s.gradient, block(dims(tensor)), tensor, true);
  if (s.gradient != 0) note({Do::whole_gradient, operation_, tensor, s.gradient});
  s.gradient = 0;
}

// A row's statistics: the block without the dimension that it runs along.
double LayerDerivation::rows(const Operation& operation, int tensor) const {
  std::vector<int> left = dims(tensor);
  std::erase(left, operation.over);
  return block(left);
}

// What travels is exchanged; returns what is a partial sum still.
Axes LayerDerivation::relocate(const Ends& ends, Axes pending, Pass pass, int tensor,
                               bool gradient) {
  const Travel way = travel(network_, layout_, ends, pending);
  for (const Leg& leg : way.legs)
    exchange(leg.collective, pass, leg.axes, leg.elements, tensor, gradient);
  return way.left;
}

Ends LayerDerivation::ends(const Operation& o, bool home) const {
  const auto& from = dims(o.inputs[0]);
  const auto& to = dims(o.output);
  const bool visits_made = o.act == Act::route;
  const bool by_place = o.act == Act::move || o.act == Act::carry;
  return {home ? to : from, home ? from : to, by_place, visits_made == home};
}

// Gradients of values come from weights, and are for the layers that are read. A state's comes
// round from the step after.
void LayerDerivation::find_gradients() {
  for (const Given& given : layer_.given) {
    const bool chained = layer_.repeat > 1 && given.tensor == layer_.input;
    state(given.tensor).has_gradient = given.source >= 0 || chained;
  }
  for (bool more = true; more;) {
    more = false;
    for (const Operation& o : layer_.operations) {
      State& out = state(o.output);
      const bool before = out.has_gradient;
      for (const int input : o.inputs)
        out.has_gradient |= is_weight(input) || state(input).has_gradient;
      // Once round more for what reads a state that has got one.
      more |= out.has_gradient != before && o.act == Act::carry;
    }
  }
}

void LayerDerivation::find_passes() {
  for (const Given& given : layer_.given)
    state(given.tensor).in_i = state(given.tensor).has_gradient;
  // I takes a state's gradient along from step to step.
  for (const Operation& o : layer_.operations) {
    if (o.act == Act::carry) state(o.output).in_i = state(o.output).has_gradient;
  }
  for (const Operation& o : layer_.operations) {
    State& out = state(o.output);
    const bool linear = o.act == Act::move || o.act == Act::add || o.act == Act::step ||
                        o.act == Act::stack || o.act == Act::carry;
    if (linear) {
      for (const int input : o.inputs) {
        out.in_i |= state(input).in_i;
        out.in_w |= state(input).in_w || is_weight(input);
      }
      continue;
    }
    for (const int input : o.inputs) {
      out.in_i |= state(input).has_gradient && !of_weight(input);
      out.in_w |= of_weight(input) && o.act != Act::norm && o.act != Act::rms_norm;
    }
    // A norm's gains get their gradients beside its input's.
    if (!out.in_i && !out.in_w) out.in_i = out.has_gradient;
  }
}

}  // namespace weir::layout
