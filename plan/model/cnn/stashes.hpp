// Cells that hand less on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/model/cell_shape.hpp"

namespace weir::cnn {

// A cell of a U-Net's level (plan/model/cnn/unet_blocks) as it is where the last so many numbers of
// a sample's row are not there: it neither reads nor hands them on, and computes the same of the
// rest. Precondition: it only hands them on.
[[nodiscard]] CellShape without_tail(CellShape cell, std::int64_t numbers);

}  // namespace weir::cnn
