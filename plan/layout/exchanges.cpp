// Forward in the order of operations, then backward in the reverse order: every use of a tensor
// hands its gradient in before the operation that made the tensor is reached.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/exchanges.hpp"

#include <algorithm>
#include <cassert>

#include "plan/layout/travel.hpp"
#include "plan/words/indexed.hpp"
#include "plan/words/names.hpp"

namespace weir::layout {
namespace {

using Do = Instruction::Do;

constexpr Names<Pass, 4> kPassNames{
    {{Pass::F, "F"}, {Pass::I, "I"}, {Pass::W, "W"}, {Pass::step, "step"}}};

class Derivation {
 public:
  Derivation(const Network& network, const NetworkLayout& layout, const NetworkLayer& layer)
      : network_(network), layout_(layout), layer_(layer), states_(layer_.tensors.size()) {}

  // What is derived is written into `script` too.
  void record(std::vector<Instruction>& script) { script_ = &script; }

  LayerShare derive() {
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

 private:
  struct State {
    int made_by = -1;
    Axes pending = 0;   // partial sums over these, forward
    Axes gradient = 0;  // the same of its gradient
    bool has_gradient = false;
    bool in_i = false;  // passes that read the gradient
    bool in_w = false;
    bool again_i = false, again_w = false;  // a move's, exchanged again in these already
  };

  // ---- words ----
  void note(const Instruction& instruction) {
    if (script_ != nullptr) script_->push_back(instruction);
  }
  [[nodiscard]] static bool moves(Act act) {
    return act == Act::move || act == Act::route || act == Act::back || act == Act::carry;
  }
  [[nodiscard]] const std::vector<int>& dims(int tensor) const {
    return layer_.tensors[at(tensor)].dimensions;
  }
  [[nodiscard]] State& state(int tensor) { return states_[at(tensor)]; }
  [[nodiscard]] bool is_weight(int tensor) const {
    return layout::is_weight(layer_.tensors[at(tensor)]);
  }
  // A weight, or one as it was moved to where it is read.
  [[nodiscard]] bool of_weight(int tensor) {
    const int by = state(tensor).made_by;
    if (by < 0) return is_weight(tensor);
    const Operation& o = layer_.operations[at(by)];
    return o.act == Act::move && is_weight(o.inputs[0]);
  }
  [[nodiscard]] double block(const std::vector<int>& dimensions) const {
    return block_elements(network_, layout_, dimensions);
  }
  [[nodiscard]] Axes axes(const std::vector<int>& dimensions) const {
    return axes_of(layout_, dimensions);
  }
  // Mesh dimensions of what `of` has and `kept` lacks: a sum over those is partial.
  [[nodiscard]] Axes summed(const std::vector<int>& of, const std::vector<int>& kept) const {
    Axes over = 0;
    for (const int d : of) {
      if (!has_dimension(kept, d)) over |= layout_.over[at(d)];
    }
    return over;
  }
  void exchange(Collective collective, Pass pass, Axes over, double elements, int tensor,
                bool gradient, bool fp32 = false) {
    if (over == 0) return;
    const std::int64_t times = carries_ ? steps() - 1 : pass == Pass::step ? 1 : times_of(tensor);
    if (times == 0) return;
    const bool of_weight = gradient && is_weight(tensor);
    share_.exchanges.push_back(
        {collective, pass, over, elements, fp32 || of_weight, tensor, gradient, times});
  }
  [[nodiscard]] std::int64_t steps() const { return network_.dimensions[at(layer_.time)].size; }
  [[nodiscard]] std::int64_t times_of(int tensor) const {
    return layout::times_of(network_, layer_, tensor);
  }
  // Multiply-adds of all steps of a product.
  [[nodiscard]] double work(const Operation& o) const {
    return block(o.all) * static_cast<double>(times_of(o.output));
  }
  // Of an attention: queries by keys, and shares by values.
  [[nodiscard]] double attention_work(const Operation& o) const {
    const AttentionProducts products = attention_products(layer_, o);
    return (block(products.scores) + block(products.sums)) *
           static_cast<double>(times_of(o.output));
  }
  void make_whole(int tensor, Pass pass, Axes of = ~Axes{0}) {
    Axes& pending = state(tensor).pending;
    exchange(Collective::all_reduce, pass, pending & of, block(dims(tensor)), tensor, false);
    if ((pending & of) != 0) note({Do::make_whole, operation_, tensor, pending & of});
    pending &= ~of;
  }
  void make_gradient_whole(int tensor, Pass pass) {
    State& s = state(tensor);
    exchange(Collective::all_reduce, pass, s.gradient, block(dims(tensor)), tensor, true);
    if (s.gradient != 0) note({Do::whole_gradient, operation_, tensor, s.gradient});
    s.gradient = 0;
  }
  [[nodiscard]] static Pass first_pass(const State& s) { return s.in_i ? Pass::I : Pass::W; }
  // A row's statistics: the block without the dimension that it runs along.
  [[nodiscard]] double rows(const Operation& operation, int tensor) const {
    std::vector<int> left = dims(tensor);
    std::erase(left, operation.over);
    return block(left);
  }
  [[nodiscard]] static double statistics(Act act) { return act == Act::norm ? 2 : 1; }

  // ---- moves ----
  // What travels is exchanged; returns what is a partial sum still.
  Axes relocate(const Ends& ends, Axes pending, Pass pass, int tensor, bool gradient) {
    const Travel way = travel(network_, layout_, ends, pending);
    for (const Leg& leg : way.legs)
      exchange(leg.collective, pass, leg.axes, leg.elements, tensor, gradient);
    return way.left;
  }
  [[nodiscard]] Ends ends(const Operation& o, bool home) const {
    const auto& from = dims(o.inputs[0]);
    const auto& to = dims(o.output);
    const bool visits_made = o.act == Act::route;
    const bool by_place = o.act == Act::move || o.act == Act::carry;
    return {home ? to : from, home ? from : to, by_place, visits_made == home};
  }

  // ---- forward ----
  // Gradients of values come from weights, and are for the layers that are read. A state's comes
  // round from the step after.
  void find_gradients() {
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
  void forward(const Operation& o) {
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
        out.pending =
            relocate(ends(o, false), state(o.inputs[0]).pending, Pass::F, o.output, false);
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
  void forward_carry(const Operation& o) {
    carries_ = true;
    const Axes left =
        relocate(ends(o, false), state(o.inputs[0]).pending, Pass::F, o.output, false);
    exchange(Collective::all_reduce, Pass::F, left, block(dims(o.output)), o.output, false);
    note({Do::move, operation_, o.output, state(o.inputs[0]).pending, left});
    carries_ = false;
  }
  void forward_product(const Operation& o) {
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
  void forward_sum(const Operation& o) {
    Axes common = ~Axes{0};
    // A sum is partial where all summands are; what is not common is made whole before.
    for (const int input : o.inputs) common &= state(input).pending;
    for (const int input : o.inputs) make_whole(input, Pass::F, ~common);
    state(o.output).pending = common;
  }
  // What the acts over rows exchange where these are split, and the products of an attention.
  void forward_rows(const Operation& o) {
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
      exchange(Collective::all_reduce, Pass::F, split, n * statistics(o.act), o.output, false,
               true);
    }
  }

  // ---- which passes read which gradients ----
  void find_passes() {
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

  // ---- backward ----
  void backward(const Operation& o) {
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
  void backward_product(const Operation& o) {
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
  void backward_sum(const Operation& o) {
    for (const int input : o.inputs) {
      if (!is_weight(input) && !state(input).has_gradient) continue;
      hand_in(input, state(o.output).gradient | summed(dims(o.output), dims(input)));
    }
  }
  void backward_gather(const Operation& o) {
    std::vector<int> all = dims(o.output);
    all.push_back(o.over);
    hand_in(o.inputs[0], state(o.output).gradient | summed(all, dims(o.inputs[0])));
  }
  void backward_move(const Operation& o) {
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
  void backward_carry(const Operation& o) {
    const int input = o.inputs[0];
    if (!state(o.output).has_gradient) return;
    carries_ = true;
    const Axes left = relocate(ends(o, true), state(o.output).gradient, Pass::I, input, true);
    exchange(Collective::all_reduce, Pass::I, left, block(dims(input)), input, true);
    note({Do::move_gradient, operation_, input, state(o.output).gradient, left});
    carries_ = false;
  }
  void backward_norm(const Operation& o) {
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
  void backward_attention(const Operation& o) {
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

  void hand_in(int tensor, Axes partial) {
    note({Do::gradient, operation_, tensor, partial});
    if (!is_weight(tensor)) {
      state(tensor).gradient |= partial;
      return;
    }
    reduce_weight(tensor, partial);
  }
  void reduce_weight(int tensor, Axes partial) {
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
  void hold(const NetworkTensor& weight) {
    const double elements = block(weight.dimensions);
    share_.weights += elements;
    const Axes sharers = sharers_of(layout_, weight);
    auto held = std::ranges::lower_bound(share_.held, sharers, {}, &HeldWeights::sharers);
    if (held == share_.held.end() || held->sharers != sharers)
      held = share_.held.insert(held, {sharers, 0});
    held->elements += elements;
  }
  // Each processor has updated its part of a weight.
  void gather_updated() {
    for (std::size_t t = 0; t < layer_.tensors.size(); ++t) {
      const NetworkTensor& weight = layer_.tensors[t];
      if (weight.role != Role::weight) continue;
      exchange(Collective::all_gather, Pass::step, sharers_of(layout_, weight),
               block(weight.dimensions), static_cast<int>(t), false);
    }
  }

  // What the backward reads of F. A move's result comes again from its input.
  void keep(int tensor, bool for_w) {
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
  void keep_statistics(int tensor, double elements) {
    share_.kept.push_back({tensor, all_steps(tensor, elements), true, false});
  }
  [[nodiscard]] double all_steps(int tensor, double elements) const {
    return elements * static_cast<double>(times_of(tensor));
  }

  const Network& network_;
  const NetworkLayout& layout_;
  const NetworkLayer& layer_;
  std::vector<State> states_;
  std::vector<Instruction>* script_ = nullptr;
  int operation_ = 0;     // the one that is derived
  bool carries_ = false;  // what is exchanged goes to the next step: one time less
  LayerShare share_;
};

}  // namespace

std::string_view to_string(Pass pass) { return name_of(kPassNames, pass); }

LayerShare layer_share(const Network& network, const NetworkLayout& layout, std::size_t index) {
  return Derivation(network, layout, network.layers[index]).derive();
}

std::vector<Instruction> layer_script(const Network& network, const NetworkLayout& layout,
                                      std::size_t index) {
  std::vector<Instruction> script;
  Derivation derivation(network, layout, network.layers[index]);
  derivation.record(script);
  static_cast<void>(derivation.derive());
  return script;
}

bool keeps_given(const Network& network, const NetworkLayer& layer, int tensor) {
  const NetworkLayout nowhere{"", {}, std::vector<Axes>(network.dimensions.size(), 0)};
  const LayerShare share = Derivation(network, nowhere, layer).derive();
  return std::ranges::any_of(
      share.kept, [tensor](const Kept& kept) { return kept.tensor == tensor && !kept.statistics; });
}

}  // namespace weir::layout
