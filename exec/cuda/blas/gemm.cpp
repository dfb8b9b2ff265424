// Row-major gemms in the words of a library that stores columns.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/blas/gemm.hpp"

#include <algorithm>
#include <stdexcept>

#include "plan/words/names.hpp"

namespace weir::cuda {
namespace {

// rows x columns with these strides, as columns stored one after the other. Of a single column the
// stride says nothing, and cuBLASLt still asks for no less than its length.
ColumnMajor transpose_of(std::int64_t rows, std::int64_t columns, std::int64_t row,
                         std::int64_t column) {
  if (column == 1) return {columns, rows, rows == 1 ? std::max(row, columns) : row, false};
  if (row == 1) return {rows, columns, columns == 1 ? std::max(column, rows) : column, true};
  throw std::logic_error("a matrix operand with neither stride 1");
}

}  // namespace

std::string_view to_string(Epilogue epilogue) {
  static constexpr Names<Epilogue, 5> kNames{{{Epilogue::none, "none"},
                                              {Epilogue::bias, "bias"},
                                              {Epilogue::bias_gelu, "bias and gelu"},
                                              {Epilogue::gelu_gradient, "gelu gradient"},
                                              {Epilogue::row_sums_of_a, "bias gradient"}}};
  return name_of(kNames, epilogue);
}

ColumnMajorGemm column_major(const Gemm& p) {
  return {transpose_of(p.k, p.n, p.b_row, p.b_column), transpose_of(p.m, p.k, p.a_row, p.a_column),
          ColumnMajor{p.n, p.m, p.c_row, false}};
}

int alignment_bytes(const ColumnMajor& matrix, std::int64_t step, Element element) {
  int bytes = 16;
  while ((matrix.leading | step) * bytes_of(element) % bytes != 0) bytes /= 2;
  return bytes;
}

bool may_carry(const Gemm& p) {
  switch (p.epilogue) {
    case Epilogue::bias_gelu:
    case Epilogue::gelu_gradient:
      return p.batch == 1 && !p.accumulate && p.c_row % 8 == 0 && p.c_row >= p.n;
    case Epilogue::row_sums_of_a:
      return p.batch == 1;
    default:
      return true;
  }
}

}  // namespace weir::cuda
