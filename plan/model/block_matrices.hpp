// Which of a layer's tensors are matrices that an optimizer may treat as such.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/model/model_part.hpp"

namespace weir {

// Whether muon makes a tensor's momentum orthogonal: a matrix of a block, or as many as it has
// experts, but no table (NVIDIA/Megatron-LM@d98e8a64ddf3, core/optimizer/emerging_optimizers.py,
// _is_nonlinear_or_embedding).
[[nodiscard]] bool is_orthogonalised(const LayerPart& layer, const ParameterTensor& tensor);

}  // namespace weir
