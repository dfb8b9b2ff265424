// y[rows, out] = x[rows, in] w' + b with w stored [out, in]: the gemms of its passes, and what
// they carry.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/blas/gemm.hpp"
#include "plan/model/model.hpp"

namespace weir::cuda {

struct Linear {
  std::int64_t rows, in, out;
  bool bias = false;

  [[nodiscard]] Gemm forward(Epilogue epilogue) const;  // x w'
  [[nodiscard]] Gemm forward() const;                   // x w' + b
  [[nodiscard]] Gemm forward_onto() const;              // x w' + b + what is added (Operands)
  [[nodiscard]] Gemm input(Epilogue epilogue) const;    // dx = dy w
  [[nodiscard]] Gemm weight(bool accumulate, Epilogue epilogue) const;  // dw (+)= dy' x, fp32
};

// A head's, whose outputs are logits: the vocabulary and, in 16 bits, what pads it to 16 bytes
// (logits_row). Without, GPT-2's 50,257 columns take cuBLASLt 13.1 on an H100 six to eight times as
// long, and the weights' gradient half as long again (MEASURED.md). Rows of w behind the vocabulary
// are zero, and a bias' numbers, so their logits are, which no loss reads, and so are their
// gradients.
[[nodiscard]] Linear head_linear(const HeadShape& shape, std::int64_t rows, Element element);

// A transformer block's; `up` makes both halves of a gated MLP.
struct BlockProducts {
  Linear qkv, out, up, down;
};
[[nodiscard]] BlockProducts block_products(const TransformerShape& shape, std::int64_t rows);

// Which epilogues a block may ask cuBLASLt for; where it has no algorithm with them, and for all
// others, a kernel of our own follows the gemm.
//
// `gelu`: bias and GELU in the gemm up, and, where times say so (exec/cuda/epilogues), its slope in
// the gemm that makes up's gradient; mlp.up is the matrix beside. Only for the tanh formula:
// cuBLAS's documentation of CUBLASLT_EPILOGUE_GELU does not say which it is, PyTorch takes it for
// tanh (torch._addmm_activation on CUDA), and tests/exec_cuda/matmul_test.cpp holds it to that.
// Only in bf16, whose rounding is coarser than the difference between the formulas (below 5e-4) and
// than any hardware tanh. The width must suit that matrix (may_carry). Nor where the MLP is gated,
// since its curve then ends in a product, or without bias.
//
// `bias_gradient`: in the pass for the weights, where micro-batches come in ascending order. The
// library overwrites it, whatever is done with the weight's gradient, so from the second
// micro-batch on it goes to scratch and is added in fp32. In fp32 and tf32 the sums over rows stay
// our own: tf32 would round what they add. Joining the slope of GELU with the bias gradient of up
// (DGELU_BGRAD) would make it in the pass for the input, which keeps no place for it.
struct BlockEpilogues {
  bool gelu = false, bias_gradient = false;
};
[[nodiscard]] BlockEpilogues block_epilogues(const TransformerShape& shape, Element element);

}  // namespace weir::cuda
