// How row-major gemms are told to a library that stores columns, what may be fused to them, and
// when it is: no device needed.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/blas/gemm.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "exec/cuda/blas/linear.hpp"
#include "plan/model/layer_tensors.hpp"

namespace weir::cuda::gemm_test {
namespace {

// c[5, 3] = a[5, 7] b[7, 3], all plain. Column after column, the memory of c is c' of 3 x 5, and c'
// = b' a': b' is 3 x 7 and a' is 7 x 5, neither transposed again, each as far apart as a row of the
// original.
TEST(ColumnMajor, PlainOperandsSwapPlaces) {
  const ColumnMajorGemm p =
      column_major({.m = 5, .n = 3, .k = 7, .a_row = 7, .b_row = 3, .c_row = 3});
  EXPECT_EQ(p.first, (ColumnMajor{3, 7, 3, false}));
  EXPECT_EQ(p.second, (ColumnMajor{7, 5, 7, false}));
  EXPECT_EQ(p.result, (ColumnMajor{3, 5, 3, false}));
}

// x W' with W stored as [out = 3, in = 7]: the operand b = W' has strides (1, 7). Column after
// column its memory is 7 x 3, which is b itself; c' needs b', so it is transposed.
TEST(ColumnMajor, AWeightIsTransposed) {
  const ColumnMajorGemm p =
      column_major({.m = 5, .n = 3, .k = 7, .a_row = 7, .b_row = 1, .b_column = 7, .c_row = 3});
  EXPECT_EQ(p.first, (ColumnMajor{7, 3, 7, true}));
}

// dy' x with dy stored as [rows = 7, out = 5]: the operand a = dy' has strides (1, 5).
TEST(ColumnMajor, AGradientOfAWeightTransposesTheOther) {
  const ColumnMajorGemm p =
      column_major({.m = 5, .n = 3, .k = 7, .a_row = 1, .a_column = 5, .b_row = 3, .c_row = 3});
  EXPECT_EQ(p.second, (ColumnMajor{5, 7, 5, true}));
}

// dw[1, 7] = dy' x of one output over 5 rows: a = dy' has strides (1, 1). Its memory is one column
// of 5, and from there to the next it is at least 5; so are the columns of x with one input.
TEST(ColumnMajor, ASingleColumnLeadsByItsLength) {
  const Gemm output = Linear{5, 7, 1}.weight(false, Epilogue::none);
  EXPECT_EQ(output.a_row, 1);
  EXPECT_EQ(output.a_column, 1);
  EXPECT_EQ(column_major(output).second, (ColumnMajor{5, 1, 5, false}));
  // Of a wider dy the stride says that it is transposed.
  Gemm part = output;
  part.a_column = 4;
  EXPECT_EQ(column_major(part).second, (ColumnMajor{1, 5, 4, true}));
}

// No operand's or result's columns are nearer than they are long, whichever sides are 1.
TEST(ColumnMajor, NoColumnsOverlap) {
  for (const std::int64_t rows : {1, 5}) {
    for (const std::int64_t in : {1, 7}) {
      for (const std::int64_t out : {1, 3}) {
        const Linear linear{rows, in, out};
        for (const Gemm& gemm : {linear.forward(), linear.input(Epilogue::none),
                                 linear.weight(false, Epilogue::none)}) {
          const ColumnMajorGemm c = column_major(gemm);
          for (const ColumnMajor& matrix : {c.first, c.second, c.result})
            EXPECT_GE(matrix.leading, matrix.rows) << rows << " " << in << " " << out;
        }
      }
    }
  }
}

TEST(ColumnMajor, RefusesAnOperandWithNeitherStrideOne) {
  EXPECT_THROW(static_cast<void>(
                   column_major({.m = 5, .n = 3, .k = 7, .a_row = 14, .a_column = 2, .b_row = 3})),
               std::logic_error);
}

// A layer of 7 numbers to 3 over 5 rows. y = x w' + b: the result's columns are rows of y, so a
// bias of 3 matches its 3 rows, as cuBLASLt's bias does; so does the matrix beside GELU, [5, 3],
// whose leading dimension is the result's, 3.
TEST(LinearGemms, ForwardIsRowsByOutputs) {
  const Gemm p = Linear{5, 7, 3}.forward(Epilogue::bias_gelu);
  const ColumnMajorGemm c = column_major(p);
  EXPECT_EQ(c.first, (ColumnMajor{7, 3, 7, true}));
  EXPECT_EQ(c.second, (ColumnMajor{7, 5, 7, false}));
  EXPECT_EQ(c.result, (ColumnMajor{3, 5, 3, false}));
  EXPECT_FALSE(p.fp32_result);
}

// dx[5, 7] = dy[5, 3] w[3, 7]: nothing is transposed.
TEST(LinearGemms, InputGradientIsPlain) {
  const ColumnMajorGemm c = column_major(Linear{5, 7, 3}.input(Epilogue::none));
  EXPECT_EQ(c.first, (ColumnMajor{7, 3, 7, false}));
  EXPECT_EQ(c.second, (ColumnMajor{3, 5, 3, false}));
  EXPECT_EQ(c.result, (ColumnMajor{7, 5, 7, false}));
}

// dw[3, 7] = dy' x over 5 rows, in fp32. cuBLASLt's B is dy, as it lies 3 x 5 and so transposed;
// its bias gradient "of B" has as many numbers as the result has columns, 3, and sums over k, the
// rows: db.
TEST(LinearGemms, WeightGradientsSumOverRows) {
  const Gemm p = Linear{5, 7, 3}.weight(true, Epilogue::row_sums_of_a);
  const ColumnMajorGemm c = column_major(p);
  EXPECT_EQ(c.second, (ColumnMajor{3, 5, 3, true}));
  EXPECT_EQ(c.result, (ColumnMajor{7, 3, 7, false}));
  EXPECT_EQ(p.m, 3);
  EXPECT_EQ(p.k, 5);
  EXPECT_TRUE(p.fp32_result && p.accumulate);
}

// Columns 8 numbers apart begin on 32 bytes in fp32 and on 16 in bf16; 12 apart on 48 and 24, so 16
// and 8; 7 apart on 28 and 14, so 4 and 2. A step of 2 between the matrices of a batch is 8 bytes,
// or 4.
TEST(Alignment, IsWhatEveryColumnAndEveryMatrixKeeps) {
  const auto of = [](std::int64_t leading, std::int64_t step, Element element) {
    return alignment_bytes({1, 1, leading, false}, step, element);
  };
  EXPECT_EQ(of(8, 0, Element::fp32), 16);
  EXPECT_EQ(of(8, 0, Element::bf16), 16);
  EXPECT_EQ(of(12, 0, Element::fp32), 16);
  EXPECT_EQ(of(12, 0, Element::bf16), 8);
  EXPECT_EQ(of(7, 0, Element::fp32), 4);
  EXPECT_EQ(of(7, 0, Element::bf16), 2);
  EXPECT_EQ(of(8, 2, Element::fp32), 8);
  EXPECT_EQ(of(8, 2, Element::bf16), 4);
}

// GPT-2's 50257 logits: 2-byte rows of them begin on 2 bytes, padded to 50264 on 16.
TEST(Alignment, LogitsAreWorthTheirPadding) {
  EXPECT_EQ(logits_row(50257, 2), 50264);
  EXPECT_EQ(logits_row(50264, 2), 50264);
  EXPECT_EQ(logits_row(50257, 4), 50257);
  EXPECT_EQ(alignment_bytes({50257, 1024, 50257, false}, 0, Element::bf16), 2);
  EXPECT_EQ(alignment_bytes({50257, 1024, 50264, false}, 0, Element::bf16), 16);
}

// 50,257 columns are padded to 50,264: extents and steps of all products are multiples of 16 bytes.
// What is aligned or fp32 keeps its size.
TEST(Alignment, AHeadsExtentsAreAligned) {
  const auto head_of = [](std::int64_t vocabulary, Element element) {
    return head_linear({.vocabulary = vocabulary, .hidden = 768}, 8192, element);
  };
  const Linear head = head_of(50257, Element::bf16);
  EXPECT_EQ(head.out, 50264);
  for (const Gemm& p : {head.forward(Epilogue::none), head.input(Epilogue::none),
                        head.weight(false, Epilogue::none), head.weight(true, Epilogue::none)}) {
    const ColumnMajorGemm columns = column_major(p);
    for (const ColumnMajor& matrix : {columns.first, columns.second, columns.result}) {
      EXPECT_EQ(matrix.rows % 8, 0);
      EXPECT_EQ(matrix.columns % 8, 0);
      EXPECT_EQ(alignment_bytes(matrix, 0, Element::bf16), 16);
    }
  }
  EXPECT_EQ(head_of(50304, Element::bf16).out, 50304);
  EXPECT_EQ(head_of(50257, Element::fp32).out, 50257);
}

// The matrix beside GELU: leading dimension a multiple of 8; neither of a batch nor of a gemm
// that accumulates.
TEST(Epilogues, GeluNeedsAMatrixOfEightsBesideIt) {
  for (const Epilogue epilogue : {Epilogue::bias_gelu, Epilogue::gelu_gradient}) {
    Gemm p{.m = 5, .n = 24, .k = 16, .c_row = 24, .epilogue = epilogue};
    EXPECT_TRUE(may_carry(p));
    p.accumulate = true;
    EXPECT_FALSE(may_carry(p));
    p = {.m = 5, .n = 24, .k = 16, .c_row = 24, .batch = 2, .epilogue = epilogue};
    EXPECT_FALSE(may_carry(p));
    for (const std::int64_t row : {16, 23, 25, 28}) {  // too short, and no multiple of 8
      EXPECT_FALSE(may_carry({.m = 5, .n = 23, .k = 16, .c_row = row, .epilogue = epilogue}))
          << row;
    }
    EXPECT_TRUE(may_carry({.m = 5, .n = 23, .k = 16, .c_row = 24, .epilogue = epilogue}));
  }
  EXPECT_FALSE(may_carry(
      {.m = 5, .n = 24, .k = 16, .c_row = 24, .batch = 2, .epilogue = Epilogue::row_sums_of_a}));
  EXPECT_TRUE(
      may_carry({.m = 5, .n = 23, .k = 16, .c_row = 23, .batch = 2, .epilogue = Epilogue::none}));
}

// Both fusions in bf16 only; GELU only by the tanh formula and only where the width is a multiple
// of 8.
TEST(Epilogues, WhichIsPickedWhen) {
  const TransformerShape tanh{
      .hidden = 768, .heads = 12, .kv_heads = 12, .head_dim = 64, .ffn = 3072};
  EXPECT_TRUE(block_epilogues(tanh, Element::bf16).gelu);
  EXPECT_TRUE(block_epilogues(tanh, Element::bf16).bias_gradient);
  EXPECT_FALSE(block_epilogues(tanh, Element::fp32).gelu);
  EXPECT_FALSE(block_epilogues(tanh, Element::fp32).bias_gradient);
  TransformerShape odd = tanh;
  odd.ffn = 3076;
  EXPECT_FALSE(block_epilogues(odd, Element::bf16).gelu);
  for (const Activation activation : {Activation::gelu, Activation::relu, Activation::silu}) {
    TransformerShape other = tanh;
    other.activation = activation;
    EXPECT_FALSE(block_epilogues(other, Element::bf16).gelu);
    EXPECT_TRUE(block_epilogues(other, Element::bf16).bias_gradient);
  }
}

}  // namespace
}  // namespace weir::cuda::gemm_test
