// Parameters as they are counted and as they are allocated.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <variant>

#include "plan/model/layer_kinds.hpp"
#include "plan/model/layer_tensors.hpp"

namespace weir {

// A tied head's table is the embedding's, and is counted there.
inline void expect_counted_as_allocated(const Model& model) {
  for (const Layer& layer : model.layers) {
    const auto* head = std::get_if<HeadShape>(&layer.shape);
    std::int64_t elements = 0;
    if (head != nullptr && head->tied) elements -= head->vocabulary * head->hidden;
    for (const ParameterTensor& tensor : layer_tensors(layer, 16, Dtype::bf16).parameters)
      elements += tensor.elements();
    EXPECT_EQ(elements, parameter_count(layer)) << model.family << " " << layer.name;
  }
}

}  // namespace weir
