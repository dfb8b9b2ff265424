// What a processor multiplies: products of two, and the kernel of an attention.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "exec/cpu/layout/kernels/network_attention.hpp"
#include "exec/cpu/layout/kernels/network_kernels.hpp"
#include "exec/cpu/layout/network_processor.hpp"
#include "plan/words/indexed.hpp"

namespace weir::cpu {

using layout::Act;
using layout::Operation;

// What is copied and cleared before is no multiply-add: the rate of products does not know it.
void NetworkProcessor::multiply(const NamedBlock& a, const NamedBlock& b, const NamedBlock& c,
                                std::optional<double> counted) {
  const NamedBlock left = packed(a, *c.shape, numbers_.packed[0]),
                   right = packed(b, *c.shape, numbers_.packed[1]);
  lap(times_.elementwise);
  counts_.multiply_adds += counted.value_or(0);
  add_product(left, right, c);
  lap(counted ? times_.products : times_.elementwise);
}

void NetworkProcessor::factors(const Operation& o, const NamedBlock& a, const NamedBlock& b,
                               const NamedBlock& c) {
  std::optional<double> counted;
  // A weighing is priced as no product.
  if (o.act == Act::product) counted = block_elements(network_, layout_, o.all);
  multiply(a, b, c, counted);
}

// Scores, their softmax, and the sums of values; the shares stay for the backward.
void NetworkProcessor::attend(const Operation& o, std::int64_t time) {
  const layout::AttentionProducts products = attention_products(*layer_, o);
  const auto work = [&](const std::vector<int>& all) {
    return block_elements(network_, layout_, all);
  };
  const NamedBlock shares = scores_of(o, time).shares, out = value(o.output, time);
  std::fill_n(shares.numbers, shares.shape->elements, 0.0F);
  multiply(value(o.inputs[0], time), value(o.inputs[1], time), shares, work(products.scores));
  const RowWork rows{o.over, network_.dimensions[at(o.over)].size, 0,
                     [](std::vector<float>&, Reduction) {}, &numbers_.of_rows};
  softmax(rows, shares, shares);
  std::fill_n(out.numbers, out.shape->elements, 0.0F);
  lap(times_.elementwise);
  multiply(shares, value(o.inputs[2], time), out, work(products.sums));
}

// One input after the other, queries first: the scores' gradients are there from then on.
void NetworkProcessor::attention_gradient(const Operation& o, int tensor, const NamedBlock& out,
                                          const NamedBlock& in, std::int64_t time) {
  const layout::AttentionProducts products = attention_products(*layer_, o);
  const double of_scores = block_elements(network_, layout_, products.scores),
               of_sums = block_elements(network_, layout_, products.sums);
  const Scores scores = scores_of(o, time);
  if (tensor == o.inputs[2]) return multiply(scores.shares, out, in, of_sums);
  if (tensor == o.inputs[1])
    return multiply(scores.gradients, value(o.inputs[0], time), in, of_scores);
  std::fill_n(scores.gradients.numbers, scores.gradients.shape->elements, 0.0F);
  multiply(out, value(o.inputs[2], time), scores.gradients, of_sums);
  softmax_gradient_in_place(o.over, scores.shares, scores.gradients);
  lap(times_.elementwise);
  multiply(scores.gradients, value(o.inputs[1], time), in, of_scores);
}

HeadTurn NetworkProcessor::turn_of(const Operation& o) const {
  const auto& dimensions = layer_->tensors[at(o.output)].dimensions;
  const BlockShape block(network_, layout_, dimensions);
  const int pairs = dimensions.back();
  const auto begin = [&](int d) { return place_.part(layout_.over[at(d)]) * block.size(d); };
  return {o.over, begin(o.over), pairs, begin(pairs) / 2, network_.dimensions[at(pairs)].size};
}

NetworkProcessor::Scores NetworkProcessor::scores_of(const Operation& o, std::int64_t time) {
  const std::size_t index = at(&o - layer_->operations.data());
  const BlockShape& shape = plan_.layers[plan_.nodes[node_].layer].scores[index];
  float* numbers = nodes_[node_].statistics[index][at(time)].data();
  return {{&shape, numbers}, {&shape, numbers + shape.elements}};
}

}  // namespace weir::cpu
