// How row-major products are told to a library that stores columns: no device needed.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <stdexcept>

#include "exec/cuda/matmul.hpp"

namespace weir::cuda {
namespace {

// c[5, 3] = a[5, 7] b[7, 3], all plain. Column after column, the memory of c is c' of 3 x 5, and c' = b' a':
// b' is 3 x 7 and a' is 7 x 5, neither transposed again, each as far apart as a row of the original.
TEST(ColumnMajor, PlainOperandsSwapPlaces) {
  const ColumnMajorProduct p = column_major({.m = 5, .n = 3, .k = 7, .a_row = 7, .b_row = 3, .c_row = 3});
  EXPECT_EQ(p.first, (ColumnMajor{3, 7, 3, false}));
  EXPECT_EQ(p.second, (ColumnMajor{7, 5, 7, false}));
  EXPECT_EQ(p.result, (ColumnMajor{3, 5, 3, false}));
}

// x W' with W stored as [out = 3, in = 7]: the operand b = W' has strides (1, 7). Column after column its memory is
// 7 x 3, which is b itself; c' needs b', so it is transposed.
TEST(ColumnMajor, AWeightIsTransposed) {
  const ColumnMajorProduct p =
      column_major({.m = 5, .n = 3, .k = 7, .a_row = 7, .b_row = 1, .b_column = 7, .c_row = 3});
  EXPECT_EQ(p.first, (ColumnMajor{7, 3, 7, true}));
}

// dy' x with dy stored as [rows = 7, out = 5]: the operand a = dy' has strides (1, 5).
TEST(ColumnMajor, AGradientOfAWeightTransposesTheOther) {
  const ColumnMajorProduct p =
      column_major({.m = 5, .n = 3, .k = 7, .a_row = 1, .a_column = 5, .b_row = 3, .c_row = 3});
  EXPECT_EQ(p.second, (ColumnMajor{5, 7, 5, true}));
}

TEST(ColumnMajor, RefusesAnOperandWithNeitherStrideOne) {
  EXPECT_THROW(static_cast<void>(column_major({.m = 5, .n = 3, .k = 7, .a_row = 14, .a_column = 2, .b_row = 3})),
               std::logic_error);
}

}  // namespace
}  // namespace weir::cuda
