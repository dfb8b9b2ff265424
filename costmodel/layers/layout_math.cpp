// What a layout costs a processor, as formulas and as numbers (docs/theory.md 11).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/layout_math.hpp"

namespace weir {
namespace {

using layout::Polynomial;

constexpr std::int64_t kBytesPerElement = 4;

const layout::NamedTensor& output_of(const layout::Program& program, const layout::Einsum& einsum) {
  return program.tensors[static_cast<std::size_t>(einsum.output)];
}

}  // namespace

LayoutCost layout_cost(const layout::Program& program, const layout::Layout& layout) {
  LayoutCost cost;
  cost.symbols = symbols(program, layout);
  for (const layout::Einsum& einsum : program.einsums) {
    EinsumCost one;
    one.computation = local_size(program, layout, all_dimensions(program, einsum));
    one.output = local_size(program, layout, output_of(program, einsum).dimensions);
    one.all_reduced_over = reduced_mesh_dimensions(program, layout, einsum);
    // Partial sums of an einsum are as large as its output, and are added up over those dimensions.
    if (!one.all_reduced_over.empty()) one.communication = Polynomial(one.output);
    cost.computation += Polynomial(one.computation);
    cost.communication += one.communication;
    cost.einsums.push_back(std::move(one));
  }
  for (const layout::NamedTensor& tensor : program.tensors) {
    cost.memory += Polynomial(local_size(program, layout, tensor.dimensions));
  }
  return cost;
}

std::optional<Polynomial> communication_per_computation(const LayoutCost& cost) {
  if (cost.computation.terms().size() != 1) return std::nullopt;
  return cost.communication.without_constants().divided_by(cost.computation.terms().begin()->first);
}

LayoutNumbers layout_numbers(const layout::Program& program, const layout::Layout& layout) {
  const LayoutCost cost = layout_cost(program, layout);
  LayoutNumbers numbers;
  numbers.multiply_adds = value(cost.computation, cost.symbols);
  numbers.memory =
      Bytes(kBytesPerElement * static_cast<std::int64_t>(value(cost.memory, cost.symbols)));
  for (std::size_t e = 0; e < cost.einsums.size(); ++e) {
    const double block = value(cost.einsums[e].output, cost.symbols);
    std::int64_t group = 1;
    for (const int m : cost.einsums[e].all_reduced_over)
      group *= layout.mesh[static_cast<std::size_t>(m)].size;
    if (group > 1) {
      ++numbers.all_reduces;
      numbers.reduced_elements += block;
      // An all-reduce sends each part twice past all but one of the members.
      numbers.exchanged_elements +=
          2 * static_cast<double>(group - 1) / static_cast<double>(group) * block;
    }
    const layout::Einsum& einsum = program.einsums[e];
    if (einsum.function != layout::Function::none || einsum.masked_by >= 0)
      numbers.elementwise += block;
  }
  return numbers;
}

LayoutTime layout_time(const LayoutNumbers& numbers, const LayoutRates& rates) {
  LayoutTime time;
  time.products = Flops(2 * numbers.multiply_adds) / rates.products;
  if (numbers.elementwise > 0)
    time.elementwise = Seconds(numbers.elementwise / rates.elementwise_per_s);
  if (numbers.all_reduces > 0) {
    time.all_reduces =
        rates.all_reduce_latency * numbers.all_reduces +
        Seconds(kBytesPerElement * numbers.exchanged_elements / rates.all_reduce_bandwidth.count());
    time.waiting = rates.all_reduce_wait * numbers.all_reduces;
  }
  return time;
}

}  // namespace weir
