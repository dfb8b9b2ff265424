// By the tensors' shapes and names.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/block_matrices.hpp"

namespace weir {

bool is_orthogonalised(const LayerPart& layer, const ParameterTensor& tensor) {
  return layer.block && tensor.decays && !tensor.frozen && tensor.shape.size() >= 2 &&
         tensor.name != "prediction.token" && tensor.name != "attention.relative";
}

}  // namespace weir
