// A mesh of processors by brute force: each holds its blocks, multiplies element by element in
// double, and fetches from others what an all-reduce needs; everything is counted where it happens.
// Knows coordinates and blocks, no formulas.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "plan/layout/layout.hpp"

namespace weir::layout {

using Shape = std::vector<std::int64_t>;
using Values = std::vector<double>;

inline std::int64_t elements(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}
// Row-major: the indices of element `at`.
inline Shape unravel(std::int64_t at, const Shape& shape) {
  Shape index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; at /= shape[d]) index[d] = at % shape[d];
  return index;
}
inline std::int64_t ravel(const Shape& index, const Shape& shape) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return at;
}

struct Processor {
  std::vector<Values> blocks;  // by tensor
  std::int64_t multiply_adds = 0;
  std::int64_t reduced = 0;    // elements of its own that it gave to all-reduces
  std::int64_t exchanged = 0;  // elements it read from others
  std::int64_t all_reduces = 0;
};

class Simulation {
 public:
  // Given tensors, and the gradients of results, hold `given(tensor, element)`.
  template <class Given>
  Simulation(const Program& program, const Layout& layout, Given&& given)
      : program_(program), layout_(layout) {
    processors_.resize(static_cast<std::size_t>(processors(layout)));
    std::vector<bool> written(program.tensors.size(), false);
    for (const Einsum& einsum : program.einsums)
      written[static_cast<std::size_t>(einsum.output)] = true;
    for (std::size_t p = 0; p < processors_.size(); ++p) {
      for (std::size_t t = 0; t < program.tensors.size(); ++t) {
        const Shape local = local_shape(program, layout, program.tensors[t]);
        Values block(static_cast<std::size_t>(elements(local)), 0.0);
        for (std::size_t i = 0; i < block.size() && !written[t]; ++i) {
          block[i] = given(static_cast<int>(t),
                           global_element(static_cast<int>(t), p, static_cast<std::int64_t>(i)));
        }
        processors_[p].blocks.push_back(std::move(block));
      }
    }
  }

  void run() {
    for (const Einsum& einsum : program_.einsums) step(einsum);
  }
  [[nodiscard]] const std::vector<Processor>& all() const { return processors_; }

  // The element of the whole tensor that is element i of a processor's block.
  [[nodiscard]] std::int64_t global_element(int tensor, std::size_t processor,
                                            std::int64_t i) const {
    const NamedTensor& shape = program_.tensors[static_cast<std::size_t>(tensor)];
    const Shape local = local_shape(program_, layout_, shape);
    const auto position = coordinates(layout_, static_cast<std::int64_t>(processor));
    Shape index = unravel(i, local);
    Shape whole;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const auto dimension = static_cast<std::size_t>(shape.dimensions[d]);
      const int on = layout_.split_over[dimension];
      if (on >= 0) index[d] += position[static_cast<std::size_t>(on)] * local[d];
      whole.push_back(program_.dimensions[dimension].size);
    }
    return ravel(index, whole);
  }

 private:
  void step(const Einsum& einsum) {
    std::vector<Values> partials;
    for (Processor& processor : processors_) partials.push_back(multiply(einsum, processor));
    // Those whose coordinates differ only along the reduced mesh dimensions form a group.
    std::map<Shape, std::vector<std::size_t>> groups;
    for (std::size_t p = 0; p < processors_.size(); ++p) {
      Shape key = coordinates(layout_, static_cast<std::int64_t>(p));
      for (const int m : reduced_mesh_dimensions(program_, layout_, einsum))
        key[static_cast<std::size_t>(m)] = 0;
      groups[key].push_back(p);
    }
    for (const auto& [key, group] : groups) all_reduce(group, partials);
    for (std::size_t p = 0; p < processors_.size(); ++p)
      finish(einsum, processors_[p], partials[p]);
  }

  [[nodiscard]] Values multiply(const Einsum& einsum, Processor& processor) const {
    const std::vector<int> dimensions = all_dimensions(program_, einsum);
    NamedTensor space{"", dimensions};
    const Shape sizes = local_shape(program_, layout_, space);
    const auto element = [&](int tensor, const Shape& point) {
      const NamedTensor& shape = program_.tensors[static_cast<std::size_t>(tensor)];
      Shape index;
      for (const int d : shape.dimensions) {
        index.push_back(point[static_cast<std::size_t>(
            std::find(dimensions.begin(), dimensions.end(), d) - dimensions.begin())]);
      }
      return static_cast<std::size_t>(ravel(index, local_shape(program_, layout_, shape)));
    };
    Values partial(processor.blocks[static_cast<std::size_t>(einsum.output)].size(), 0.0);
    for (std::int64_t i = 0; i < elements(sizes); ++i) {
      const Shape point = unravel(i, sizes);
      double product = 1;
      for (const int input : einsum.inputs) {
        product *= processor.blocks[static_cast<std::size_t>(input)][element(input, point)];
      }
      partial[element(einsum.output, point)] += product;
      ++processor.multiply_adds;
    }
    return partial;
  }

  // Reduce-scatter, then all-gather: element i is summed by one of the group, who reads it from all
  // others, and then read from it by all others.
  void all_reduce(const std::vector<std::size_t>& group, std::vector<Values>& partials) {
    if (group.size() < 2) return;
    const std::size_t n = partials[group[0]].size();
    for (const std::size_t p : group) {
      processors_[p].reduced += static_cast<std::int64_t>(n);
      ++processors_[p].all_reduces;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t owner = group[i * group.size() / n];
      double sum = 0;
      for (const std::size_t p : group) {
        sum += partials[p][i];
        if (p != owner) ++processors_[owner].exchanged;
      }
      for (const std::size_t p : group) {
        partials[p][i] = sum;
        if (p != owner) ++processors_[p].exchanged;
      }
    }
  }

  static void finish(const Einsum& einsum, Processor& processor, const Values& sums) {
    Values& block = processor.blocks[static_cast<std::size_t>(einsum.output)];
    for (std::size_t i = 0; i < block.size(); ++i) {
      double value = sums[i];
      if (einsum.function == Function::relu) value = std::max(value, 0.0);
      if (einsum.masked_by >= 0 &&
          processor.blocks[static_cast<std::size_t>(einsum.masked_by)][i] <= 0)
        value = 0;
      block[i] += value;
    }
  }

  const Program& program_;
  const Layout& layout_;
  std::vector<Processor> processors_;
};

}  // namespace weir::layout
