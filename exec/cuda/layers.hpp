// The passes of each layer kind on CUDA: F, I and W apart, in the words of plan/layer_tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/backend.hpp"
#include "exec/cuda/attention.hpp"
#include "exec/cuda/kernels.hpp"
#include "exec/cuda/matmul.hpp"
#include "plan/model.hpp"

namespace weir::cuda {

// Scratch memory beside the tensors of the contract, in elements; the most that any prepared layer asks for.
struct ScratchNeeds {
  std::int64_t tokens = 0;      // int32: the micro-batch's tokens on the device
  std::int64_t row_losses = 0;  // double, and one more for the sum
  std::int64_t partials = 0;    // float: sums over rows
  std::int64_t attention = 0;   // float: two sets of a sample's s x s matrices
  std::int64_t fused = 0;       // bytes: what the kernels of fused attention ask for
  [[nodiscard]] std::int64_t bytes() const;
  void cover(const ScratchNeeds& other);
};

// What a pass works with: the rank's stream and matrix products, and where its scratch memory lies.
struct Workbench {
  cudaStream_t stream = nullptr;
  Matmul* matmul = nullptr;
  void* products = nullptr;
  std::int32_t* tokens = nullptr;
  double* row_losses = nullptr;
  float* partials = nullptr;
  float* attention = nullptr;
  Attention* fused = nullptr;
  void* fused_scratch = nullptr;

  void use(std::byte* scratch, const ScratchNeeds& needs);
  void multiply(const Product& product, const float* a, const float* b, const float* bias, float* c) const;
  // The micro-batch's tokens, brought to the device.
  [[nodiscard]] Tokens bring_tokens(const LayerCall& call) const;
};

[[nodiscard]] inline DropoutMask mask_of(const LayerCall& call, double probability, DropoutSite site) {
  const DropoutPlace& p = call.dropout;
  return dropout_mask(probability, p.seed, p.step, p.microbatch, p.layer, site);
}

// What a block with fused attention asks of its kernels, in fp32.
[[nodiscard]] AttentionShape attention_shape(const TransformerShape& shape, std::int64_t batch,
                                             std::int64_t seq_length);

// Makes the products of a layer ready; returns the scratch memory it needs.
ScratchNeeds prepare(const EmbeddingShape& shape, std::int64_t batch, std::int64_t seq_length, Matmul& matmul);
void forward(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on);
void backward_input(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on);
void backward_weight(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on);

ScratchNeeds prepare(const TransformerShape& shape, std::int64_t batch, std::int64_t seq_length, Matmul& matmul);
void forward(const TransformerShape& shape, const LayerCall& call, const Workbench& on);
void backward_input(const TransformerShape& shape, const LayerCall& call, const Workbench& on);
void backward_weight(const TransformerShape& shape, const LayerCall& call, const Workbench& on);

ScratchNeeds prepare(const NormShape& shape, std::int64_t batch, std::int64_t seq_length, Matmul& matmul);
void forward(const NormShape& shape, const LayerCall& call, const Workbench& on);
void backward_input(const NormShape& shape, const LayerCall& call, const Workbench& on);
void backward_weight(const NormShape& shape, const LayerCall& call, const Workbench& on);

ScratchNeeds prepare(const HeadShape& shape, std::int64_t batch, std::int64_t seq_length, Matmul& matmul);
void forward(const HeadShape& shape, const LayerCall& call, const Workbench& on);
void backward_input(const HeadShape& shape, const LayerCall& call, const Workbench& on);
void backward_weight(const HeadShape& shape, const LayerCall& call, const Workbench& on);

// Layers of which only times or sizes are known have no kernels; a run refuses them before it starts.
ScratchNeeds prepare(const TimedShape& shape, std::int64_t batch, std::int64_t seq_length, Matmul& matmul);
void forward(const TimedShape& shape, const LayerCall& call, const Workbench& on);
void backward_input(const TimedShape& shape, const LayerCall& call, const Workbench& on);
void backward_weight(const TimedShape& shape, const LayerCall& call, const Workbench& on);
ScratchNeeds prepare(const SizedShape& shape, std::int64_t batch, std::int64_t seq_length, Matmul& matmul);
void forward(const SizedShape& shape, const LayerCall& call, const Workbench& on);
void backward_input(const SizedShape& shape, const LayerCall& call, const Workbench& on);
void backward_weight(const SizedShape& shape, const LayerCall& call, const Workbench& on);

}  // namespace weir::cuda
