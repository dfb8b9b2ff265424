// The embedding of images on CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cuda/layers.hpp"

namespace weir::cuda {

// As a layer's passes (exec/cuda/layers), of an embedding with patches.
ScratchNeeds prepare_patches(const EmbeddingShape& shape, std::int64_t batch,
                             std::int64_t seq_length, const Workbench& on);
void embed_patches(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on);
void embed_patches_backward_weight(const EmbeddingShape& shape, const LayerCall& call,
                                   const Workbench& on);

}  // namespace weir::cuda
