// A layer as it is evaluated.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/model/model.hpp"

namespace weir {

[[nodiscard]] Layer without_dropout(Layer layer);

}  // namespace weir
