// Every rate of dropout set to zero, and batch norms with their running statistics.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/evaluation.hpp"

namespace weir {

Layer as_evaluated(Layer layer) {
  if (auto* embedding = std::get_if<EmbeddingShape>(&layer.shape)) embedding->dropout = 0;
  if (auto* block = std::get_if<TransformerShape>(&layer.shape))
    block->attention_dropout = block->residual_dropout = 0;
  if (auto* cell = std::get_if<CellShape>(&layer.shape)) cell->inference = true;
  return layer;
}

}  // namespace weir
