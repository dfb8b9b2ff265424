// The passes of each layer kind on CUDA: F, I and W apart, in the words of
// plan/model/layer_tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/cuda/attention.hpp"
#include "exec/cuda/blas/matmul.hpp"
#include "exec/cuda/group.hpp"
#include "exec/cuda/kernels/types.hpp"
#include "exec/device/backend.hpp"
#include "exec/training/rotary_tables.hpp"
#include "plan/model/model.hpp"

namespace weir::cuda {

// Scratch memory beside the tensors of the contract, in elements; the most that any prepared layer
// asks for.
struct ScratchNeeds {
  std::int64_t words = 0;           // 4 bytes: what a pass reads of the micro-batch's samples
  std::int64_t row_losses = 0;      // double, and one more for the sum
  std::int64_t partials = 0;        // float: sums over rows
  std::int64_t row_sums = 0;        // float: a layer's bias gradients before they are added
  std::int64_t scores = 0;          // float: a sample's s x s matrices, unrounded
  std::int64_t masked_bytes = 0;    // the same in the working format
  std::int64_t fused_bytes = 0;     // what the kernels of fused attention ask for
  std::int64_t table_bytes = 0;     // of rotary positions, of all prepared layers
  std::int64_t row_numbers = 0;     // float: three a row of logits, where devices divide these
  std::int64_t group_bytes = 0;     // the other devices' parts of a slice of a sum
  std::int64_t unfolded_bytes = 0;  // convolutions' windows
  std::int64_t filter_bytes = 0;    // a convolution's weights in the order of its windows
  [[nodiscard]] std::int64_t bytes() const;
  void cover(const ScratchNeeds& other);
};

// Floats up to where the next tensor would begin: algorithms are chosen for sums that begin as
// tensors do.
[[nodiscard]] inline std::int64_t whole_lines(std::int64_t floats) {
  return aligned_bytes(floats * 4) / 4;
}

// Whether a pass adds to gradients that earlier micro-batches left.
[[nodiscard]] inline Beta beta(const LayerCall& call) {
  return call.accumulate ? Beta::one : Beta::zero;
}

// A tensor's elements.
template <class E>
[[nodiscard]] E* elements(const Tensor& tensor) {
  return reinterpret_cast<E*>(tensor.data);
}

// What a pass works with: the rank's stream and matrix products, and where its scratch memory lies.
struct Workbench {
  cudaStream_t stream = nullptr;
  Matmul* matmul = nullptr;
  StepNumbers* numbers = nullptr;
  void* gemm_scratch = nullptr;
  std::int32_t* words = nullptr;
  double* row_losses = nullptr;
  float* partials = nullptr;
  float* row_sums = nullptr;
  float* scores = nullptr;
  void* masked = nullptr;
  Attention* fused = nullptr;
  void* fused_scratch = nullptr;
  RotaryTables rotary;
  const float* factor = nullptr;  // of gradients, where they are clipped on the device
  float* row_numbers = nullptr;
  Group group;
  void* unfolded = nullptr;
  void* filter = nullptr;

  // Tables of rotary positions are there when this returns.
  void use(std::byte* scratch, const ScratchNeeds& needs);
  void multiply(const Gemm& gemm, const Operands& operands) const;
  // Words `first` to `first` + `count` of each of the micro-batch's samples, brought to the device,
  // to word `place` of the scratch memory.
  const std::int32_t* bring(const LayerCall& call, std::int64_t first, std::int64_t count,
                            std::int64_t place = 0) const;
  // The mask of a place in the layer, at the step that the device knows, from element `first` of
  // its numbers on, a multiple of four.
  [[nodiscard]] StepMask mask(const LayerCall& call, double probability, DropoutSite site,
                              std::int64_t first = 0) const;
  // pass(E{}) with E the type of activations and working weights: Bf16 or float.
  template <class Pass>
  void in_elements(Pass pass) const {
    if (matmul->element() == Element::bf16) {
      pass(Bf16{});
    } else {
      pass(float{});
    }
  }
};

// What a block with fused attention asks of its kernels.
[[nodiscard]] AttentionShape attention_shape(const TransformerShape& shape, std::int64_t batch,
                                             std::int64_t seq_length, const Workbench& on);

// Makes all that a layer's passes launch ready; returns the scratch memory it needs.
ScratchNeeds prepare(const Layer& layer, std::int64_t batch, std::int64_t seq_length,
                     Workbench& on);

// Makes the gemms of a layer ready; returns the scratch memory it needs.
ScratchNeeds prepare(const EmbeddingShape& shape, std::int64_t batch, std::int64_t seq_length,
                     const Workbench& on);
void forward(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on);
void backward_input(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on);
void backward_weight(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on);

ScratchNeeds prepare(const TransformerShape& shape, std::int64_t batch, std::int64_t seq_length,
                     const Workbench& on);
void forward(const TransformerShape& shape, const LayerCall& call, const Workbench& on);
void backward_input(const TransformerShape& shape, const LayerCall& call, const Workbench& on);
void backward_weight(const TransformerShape& shape, const LayerCall& call, const Workbench& on);

ScratchNeeds prepare(const NormShape& shape, std::int64_t batch, std::int64_t seq_length,
                     const Workbench& on);
void forward(const NormShape& shape, const LayerCall& call, const Workbench& on);
void backward_input(const NormShape& shape, const LayerCall& call, const Workbench& on);
void backward_weight(const NormShape& shape, const LayerCall& call, const Workbench& on);

ScratchNeeds prepare(const HeadShape& shape, std::int64_t batch, std::int64_t seq_length,
                     const Workbench& on);
void forward(const HeadShape& shape, const LayerCall& call, const Workbench& on);
void backward_input(const HeadShape& shape, const LayerCall& call, const Workbench& on);
void backward_weight(const HeadShape& shape, const LayerCall& call, const Workbench& on);

ScratchNeeds prepare(const CellShape& cell, std::int64_t batch, std::int64_t seq_length,
                     const Workbench& on);
void forward(const CellShape& cell, const LayerCall& call, const Workbench& on);
void backward_input(const CellShape& cell, const LayerCall& call, const Workbench& on);
void backward_weight(const CellShape& cell, const LayerCall& call, const Workbench& on);

}  // namespace weir::cuda
