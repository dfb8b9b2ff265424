// What an action takes or makes for other stages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "exec/device/arena.hpp"

namespace weir {

struct Messages {
  Tensor main;  // of the neighbour: the stage before, or the next one
  // Of skips that go directly, past the neighbour, the nearest stage's first.
  std::vector<Tensor> skips{};
};

}  // namespace weir
