// The embedding of images on the CPU (ViT: Dosovitskiy et al., ICLR 2021, section 3.1): a
// convolution whose window and step are a patch, behind a class token, and positions added.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exec/cpu/workbench.hpp"
#include "exec/device/backend.hpp"
#include "plan/model/layer_shape.hpp"

namespace weir::cpu {

void prepare_patches(const EmbeddingShape& shape, Workbench& on);
// Keeps of each image the part that is whole patches.
void embed_patches(const EmbeddingShape& shape, const LayerCall& call, Workbench& on);
void embed_patches_backward_weight(const EmbeddingShape& shape, const LayerCall& call,
                                   Workbench& on);

}  // namespace weir::cpu
