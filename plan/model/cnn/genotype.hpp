// The genotype of AmoebaNet-D's cells, that of the authors' TPU code. A cell brings the outputs of
// the two layers before it to its own width (states 0, of the nearer one, and 1), makes five more
// states, each the sum of two operations on earlier ones, and gives the concatenation of some. The
// paper lets a normal cell give states 4, 5 and 6; the code's 0, 3, 4 and 6 are what has the
// parameters of GPipe's table 1, as torchgpipe's authors found.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::cnn::genotype {

enum class Operation : std::uint8_t {
  none,
  average_pool,  // of 3 x 3, as the maximum's
  max_pool,
  conv_1x1,
  conv_3x3,      // between 1 x 1 to a quarter of the channels and back
  conv_1x7_7x1,  // likewise
};

struct Input {
  std::size_t state;
  Operation operation;
};

struct Cell {
  std::array<Input, 10> inputs;  // two for each of the states 2 to 6
  std::span<const std::size_t> outputs;
};

inline constexpr std::array<std::size_t, 4> kNormalOutputs{0, 3, 4, 6};
inline constexpr Cell kNormal{{{{1, Operation::conv_1x1},
                                {1, Operation::max_pool},
                                {1, Operation::none},
                                {0, Operation::conv_1x7_7x1},
                                {0, Operation::conv_1x1},
                                {0, Operation::conv_1x7_7x1},
                                {2, Operation::max_pool},
                                {2, Operation::none},
                                {1, Operation::average_pool},
                                {5, Operation::conv_1x1}}},
                              kNormalOutputs};

// Its operations on states 0 and 1 halve the map; those it makes have their size already.
inline constexpr std::array<std::size_t, 3> kReductionOutputs{4, 5, 6};
inline constexpr Cell kReduction{{{{0, Operation::max_pool},
                                   {0, Operation::max_pool},
                                   {2, Operation::none},
                                   {1, Operation::conv_3x3},
                                   {2, Operation::conv_1x7_7x1},
                                   {2, Operation::max_pool},
                                   {3, Operation::none},
                                   {1, Operation::max_pool},
                                   {2, Operation::average_pool},
                                   {3, Operation::conv_1x1}}},
                                 kReductionOutputs};

}  // namespace weir::cnn::genotype
