// Every rate of dropout set to zero.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/evaluation.hpp"

namespace weir {

Layer without_dropout(Layer layer) {
  if (auto* embedding = std::get_if<EmbeddingShape>(&layer.shape)) embedding->dropout = 0;
  if (auto* block = std::get_if<TransformerShape>(&layer.shape))
    block->attention_dropout = block->residual_dropout = 0;
  return layer;
}

}  // namespace weir
