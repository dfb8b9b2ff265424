// The gemms of a linear layer's passes.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/blas/linear.hpp"

#include "plan/model/layer_tensors.hpp"

namespace weir::cuda {

Gemm Linear::forward(Epilogue epilogue) const {
  return {.m = rows,
          .n = out,
          .k = in,
          .a_row = in,
          .b_row = 1,
          .b_column = in,
          .c_row = out,
          .epilogue = epilogue};
}

Gemm Linear::forward_onto() const {
  Gemm gemm = forward(Epilogue::bias);
  gemm.accumulate = true;
  return gemm;
}

Gemm Linear::input(Epilogue epilogue) const {
  return {
      .m = rows, .n = in, .k = out, .a_row = out, .b_row = in, .c_row = in, .epilogue = epilogue};
}

Gemm Linear::weight(bool accumulate, Epilogue epilogue) const {
  return {.m = out,
          .n = in,
          .k = rows,
          .a_row = 1,
          .a_column = out,
          .b_row = in,
          .c_row = in,
          .epilogue = epilogue,
          .accumulate = accumulate,
          .fp32_result = true};
}

Linear head_linear(const HeadShape& shape, std::int64_t rows, Element element) {
  return {rows, shape.hidden, logits_row(shape.vocabulary, bytes_of(element))};
}

BlockEpilogues block_epilogues(const TransformerShape& shape, Element element) {
  if (element != Element::bf16) return {};
  const Linear up{1, shape.hidden, shape.ffn};
  return {.gelu = shape.activation == Activation::gelu_tanh &&
                  may_carry(up.forward(Epilogue::bias_gelu)),
          .bias_gradient = true};
}

}  // namespace weir::cuda
