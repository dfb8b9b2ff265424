// Which tensors of a training step live at once: Mesh-TensorFlow's own measure of a layout, the
// peak of their bytes on a device, which its optimizer (auto_mtf) makes as small as it can.
//
// From its source (github.com/tensorflow/mesh at da90793, mesh_tensorflow/auto_mtf): sizes are
// those of the tensors alone, without what an operation needs besides (memory_estimator.py);
// operations run one after the other, each adds its outputs, and a tensor goes when the last that
// reads it is done (compute_memory_contents_under_schedule in graph_interface.py); the peak is the
// largest sum beside any operation (layout_optimizer.py). Weights and their gradients stay to the
// step's end. The order is the program's and then its mirror image, as the optimizer's NAIVE
// schedule has it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/layout/network.hpp"
#include "plan/words/dtype.hpp"
#include "plan/words/units.hpp"

namespace weir {

// Tensors by their dimensions, and how many of each kind live beside an operation; of the
// operations only those beside which no other has as many of every kind.
struct LiveTensors {
  std::vector<std::vector<int>> kinds;      // dimensions, ascending
  std::vector<std::vector<double>> beside;  // by operation and kind
};
// Of a step of one micro-batch. What is there once a step over time counts that often, since the
// backward reads it.
[[nodiscard]] LiveTensors live_tensors(const layout::Network& network);

// The largest sum of a device's blocks, all in the number format.
[[nodiscard]] Bytes peak_live_bytes(const layout::Network& network,
                                    const layout::NetworkLayout& layout, const LiveTensors& live,
                                    Dtype dtype);

}  // namespace weir
