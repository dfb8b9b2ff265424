// What a drawing has of one kind of shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>
#include <vector>

#include "tools/report/vector.hpp"

namespace weir {

template <class Shape>
std::vector<Shape> all_of(const Drawing& drawing) {
  std::vector<Shape> shapes;
  for (const auto& shape : drawing.shapes) {
    if (const auto* one = std::get_if<Shape>(&shape)) shapes.push_back(*one);
  }
  return shapes;
}

}  // namespace weir
