// Initial weights as numbers of (seed, layer, tensor, element), and the hash of trained ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/model/layer_tensors.hpp"
#include "plan/model/model.hpp"

namespace weir {

// Row-major fp32 values of parameter `tensor` of layer `layer`. Normal weights have the model's
// initializer_range as standard deviation, those that write into the residual stream that over
// sqrt(2 * blocks) (GPT-2, section 2.3), those of convolutions sqrt(2 / (outputs x height x
// width)) (He et al., ICCV 2015). A tied tensor takes the numbers of the layer that owns it:
// give that layer's index.
[[nodiscard]] std::vector<float> initial_values(const Model& model,
                                                const ParameterTensor& parameter,
                                                std::uint32_t layer, std::uint32_t tensor,
                                                std::uint64_t seed);

}  // namespace weir
