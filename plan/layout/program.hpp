// Programs of einsums over named dimensions, the language of Mesh-TensorFlow (Shazeer et al.,
// NeurIPS 2018): a tensor is an ordered list of named dimensions, and an einsum multiplies tensors
// and sums over every dimension that its output does not have. How such a program is split over
// processors is a layout's business (plan/layout/layout.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::layout {

struct Dimension {
  std::string name;
  std::string symbol;  // in formulas
  std::int64_t size = 1;
};

// Of a tensor's, by their indices.
[[nodiscard]] bool has_dimension(const std::vector<int>& dimensions, int dimension);

struct NamedTensor {
  std::string name;
  std::vector<int>
      dimensions;  // indices into the program's, each at most once; the last varies fastest
};

// Applied to the output element by element, after the sum.
enum class Function : std::uint8_t { none, relu };

struct Einsum {
  int output = 0;           // index of a tensor
  std::vector<int> inputs;  // distinct tensors
  Function function = Function::none;
  int masked_by = -1;  // the output is zeroed where this tensor is not above zero: relu's gradient
};

struct Program {
  std::vector<Dimension> dimensions;
  std::vector<NamedTensor> tensors;
  std::vector<Einsum> einsums;  // in order; each input is given or the output of an earlier one
  int forward = 0;  // how many of the einsums are forward; the others are their gradients
};

// The dimensions an einsum sums over, and all it touches, ascending.
[[nodiscard]] std::vector<int> reduced_dimensions(const Program& program, const Einsum& einsum);
[[nodiscard]] std::vector<int> all_dimensions(const Program& program, const Einsum& einsum);

// Appends the gradients, last einsum first. For o = f(a b): da = do b and db = a do, both einsums
// by the same rule, and where the input is itself a relu's output, zeroed where that output is. The
// gradient of a result ("dy") is given; a tensor used twice gets the sum of two einsums. Throws
// std::invalid_argument naming a tensor whose name is taken.
[[nodiscard]] Program with_backward(const Program& program);

// Names in order: "w[io, hidden]"; "h = relu(x w)", "dh = (dy v) where h > 0".
[[nodiscard]] std::string to_text(const Program& program, const NamedTensor& tensor);
[[nodiscard]] std::string to_text(const Program& program, const Einsum& einsum);

}  // namespace weir::layout
