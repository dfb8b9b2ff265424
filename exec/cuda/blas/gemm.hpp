// A matrix product as the passes ask for it, and how cuBLASLt is told about it: layouts,
// alignments, and what may be fused to its end. Arithmetic only, so that it can be checked where
// there is no device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

namespace weir::cuda {

enum class Element : std::uint8_t { fp32, bf16 };
[[nodiscard]] constexpr std::int64_t bytes_of(Element element) {
  return element == Element::fp32 ? 4 : 2;
}

// What is done to a gemm before it is stored, or beside it.
enum class Epilogue : std::uint8_t {
  none,
  bias,           // c = a b + bias[n]
  bias_gelu,      // aux = a b + bias[n], c = gelu(aux), by the tanh formula
  gelu_gradient,  // c = (a b) * gelu'(aux), the same formula's slope
  row_sums_of_a,  // c (+)= a b, and bias[m] = the sum of a over k: a bias' gradient beside its
                  // weight's
};
[[nodiscard]] std::string_view to_string(Epilogue epilogue);

// c[m, n] (+)= a[m, k] b[k, n], row-major; strides in elements, one of each operand's two is 1, so
// a transposed operand is one with its strides exchanged. A batch repeats the gemm at steps
// a_step, b_step, c_step. aux has c's layout.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 1;
  std::int64_t b_row = 0, b_column = 1;
  std::int64_t c_row = 0;
  std::int64_t batch = 1, a_step = 0, b_step = 0, c_step = 0;
  // Its matrices may begin a multiple of so many elements behind 16 bytes; 0: on 16 bytes.
  std::int64_t begins = 0;
  Epilogue epilogue = Epilogue::none;
  bool accumulate = false;
  bool fp32_result = false;  // c is fp32 whatever the operands are
  auto operator<=>(const Gemm&) const = default;
};

// What each matrix of a gemm looks like to cuBLASLt, which stores columns one after the other:
// c' = b' a'.
struct ColumnMajor {
  std::int64_t rows = 0, columns = 0, leading = 0;
  bool transposed = false;
  auto operator<=>(const ColumnMajor&) const = default;
};
struct ColumnMajorGemm {
  ColumnMajor first, second, result;  // result = first * second
};
// Throws std::logic_error when neither stride of an operand is 1.
[[nodiscard]] ColumnMajorGemm column_major(const Gemm& gemm);

// The bytes, up to 16, on which every column of a matrix begins that itself begins on 16 bytes;
// `step`: from one matrix of a batch to the next, 0 without a batch, and where the first begins.
// What an algorithm may assume, whatever addresses it will meet.
[[nodiscard]] int alignment_bytes(const ColumnMajor& matrix, std::int64_t step, Element element);

// Whether the gemm may carry its epilogue by cuBLASLt's rules (cublasLt.h): the matrix beside
// GELU has a leading dimension divisible by 8 and not below the result's rows; bias gradients are
// of one gemm, not of a batch.
[[nodiscard]] bool may_carry(const Gemm& gemm);

}  // namespace weir::cuda
