// A layer as it is evaluated: without dropout, batch norms by their running statistics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/model/model.hpp"

namespace weir {

[[nodiscard]] Layer as_evaluated(Layer layer);

}  // namespace weir
