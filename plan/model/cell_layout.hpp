// Where the values of a cell and their gradients lie during its passes, derived from the shape
// alone: plan/model/layer_cell makes the layer's tensors of it, and a backend finds its operands by
// it.
//
// A value stays until a backward has read it: a convolution reads its input for its weights'
// gradient (W), a batch norm its input (I), a rectifier the signs of its input, a bit a number, a
// max pooling the place in the window of each maximum, a byte a number. All else lies in F's
// workspace between who makes it and its last reader, and gradients in I's, but for those of
// convolutions' outputs, which W reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/model/cell_shape.hpp"

namespace weir {

// A tensor of a pass.
struct CellPlace {
  enum class Where : std::uint8_t { nowhere, input, output, saved, carried, workspace };
  Where where = Where::nowhere;
  int index = 0;            // among LayerTensors' saved or carried
  std::int64_t offset = 0;  // in workspace: numbers a sample
};

struct CellLayout {
  std::vector<CellPlace> values;     // by value
  std::vector<CellPlace> gradients;  // by value; of value 0 of images: nowhere
  // By operation: what else F saves for it (statistics, signs, places), what I carries for its W
  // (a norm's gradients), and its first parameter; -1: nothing.
  std::vector<int> saved, carried, parameter;
  // By value: read by a weight gradient, and by an input gradient.
  std::vector<bool> read_by_w, read_by_i;
  CellPlace summand;  // where a gradient lies that is added to one already there
  std::int64_t workspace_f = 0, workspace_i = 0;  // numbers a sample
};

[[nodiscard]] CellLayout cell_layout(const CellShape& cell);

// Bytes of signs, a bit each, rounded up to whole words of the aligned tensor.
[[nodiscard]] constexpr std::int64_t sign_bytes(std::int64_t numbers) { return (numbers + 7) / 8; }

}  // namespace weir
