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

Gemm Linear::forward() const { return forward(bias ? Epilogue::bias : Epilogue::none); }

Gemm Linear::forward_onto() const {
  Gemm gemm = forward();
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
  return {rows, shape.hidden, logits_row(shape.vocabulary, bytes_of(element)), shape.bias};
}

BlockProducts block_products(const TransformerShape& shape, std::int64_t rows) {
  const std::int64_t h = shape.hidden, d = shape.head_dim, f = shape.ffn;
  const std::int64_t queries = shape.heads * d, keys = shape.kv_heads * d;
  return {.qkv = {rows, h, queries + 2 * keys, shape.qkv_bias},
          .out = {rows, queries, h, shape.output_bias},
          .up = {rows, h, shape.gated ? 2 * f : f, shape.mlp_bias},
          .down = {rows, f, h, shape.mlp_bias}};
}

BlockEpilogues block_epilogues(const TransformerShape& shape, Element element) {
  if (element != Element::bf16) return {};
  const Linear up = block_products(shape, 1).up;
  return {.gelu = shape.activation == Activation::gelu_tanh && !shape.gated && shape.mlp_bias &&
                  may_carry(up.forward(Epilogue::bias_gelu)),
          .bias_gradient = true};
}

}  // namespace weir::cuda
