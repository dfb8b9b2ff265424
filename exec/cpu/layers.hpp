// The passes of each layer kind on the CPU: F, I and W apart, in the words of
// plan/model/layer_tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "exec/cpu/matmul.hpp"
#include "exec/device/backend.hpp"
#include "exec/training/philox.hpp"
#include "plan/model/model.hpp"

namespace weir::cpu {

// Of the numbers that the pass draws at this place of its layer.
[[nodiscard]] DropoutMask mask_of(const LayerCall& call, double probability, DropoutSite site);

void prepare(const EmbeddingShape& shape, std::int64_t batch, std::int64_t seq_length,
             Matmul& matmul);
void forward(const EmbeddingShape& shape, const LayerCall& call, Matmul& matmul);
void backward_input(const EmbeddingShape& shape, const LayerCall& call, Matmul& matmul);
void backward_weight(const EmbeddingShape& shape, const LayerCall& call, Matmul& matmul);

void prepare(const TransformerShape& shape, std::int64_t batch, std::int64_t seq_length,
             Matmul& matmul);
void forward(const TransformerShape& shape, const LayerCall& call, Matmul& matmul);
void backward_input(const TransformerShape& shape, const LayerCall& call, Matmul& matmul);
void backward_weight(const TransformerShape& shape, const LayerCall& call, Matmul& matmul);

void prepare(const NormShape& shape, std::int64_t batch, std::int64_t seq_length, Matmul& matmul);
void forward(const NormShape& shape, const LayerCall& call, Matmul& matmul);
void backward_input(const NormShape& shape, const LayerCall& call, Matmul& matmul);
void backward_weight(const NormShape& shape, const LayerCall& call, Matmul& matmul);

void prepare(const HeadShape& shape, std::int64_t batch, std::int64_t seq_length, Matmul& matmul);
void forward(const HeadShape& shape, const LayerCall& call, Matmul& matmul);
void backward_input(const HeadShape& shape, const LayerCall& call, Matmul& matmul);
void backward_weight(const HeadShape& shape, const LayerCall& call, Matmul& matmul);

}  // namespace weir::cpu
