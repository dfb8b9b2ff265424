// The shape of a cell: a layer of a convolutional network that is put together from operations on
// maps, with whatever skips it has inside. One operation alone is a cell too. A map of a sample is
// [height, width, channels], channels last; a value is what an operation makes, and is numbered:
//
//   value 0: the cell's input; value i: the output of operation i, counted from 1; the last one is
//   the cell's output
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir {

struct FeatureMap {
  std::int64_t channels = 0, height = 0, width = 0;
  [[nodiscard]] std::int64_t places() const { return height * width; }
  [[nodiscard]] std::int64_t numbers() const { return channels * places(); }
  bool operator==(const FeatureMap&) const = default;
};

enum class CellOperationKind : std::uint8_t {
  convolution,   // with a kernel as large as its input: a fully connected layer
  batch_norm,    // over the micro-batch and all places, a channel at a time
  relu,          //
  max_pool,      //
  average_pool,  // over what of the window lies on the map
  global_pool,   // the mean of each channel
  add,           // of all inputs
  concat,        // of all inputs' channels, in order
  upsample,      // each place becomes as many equal ones as the strides say
  pack,          // all inputs' numbers one after the other, a map of one place
  slice,         // of such a map, `offset` numbers on, as a map again
};

struct CellOperation {
  CellOperationKind kind = CellOperationKind::relu;
  std::string name;         // of its parameters: "conv1"
  std::vector<int> inputs;  // values
  FeatureMap output;
  // Of convolutions and poolings: the window's height and width, its steps, and the rows and
  // columns added on each side (zeros to a convolution, nothing to a pooling); a pooling with less
  // than none begins so much further on.
  std::int64_t kernel_y = 1, kernel_x = 1;
  std::int64_t stride_y = 1, stride_x = 1;  // of an upsampling: how many it makes of one
  std::int64_t pad_y = 0, pad_x = 0;
  std::int64_t groups = 1;  // of a convolution
  bool bias = false;        // of a convolution
  std::int64_t offset = 0;  // of a slice
  double epsilon = 1e-5;    // of a batch norm
  double momentum = 0.1;    // of a batch norm's running statistics: the share of the new
  bool operator==(const CellOperation&) const = default;
};

struct CellShape {
  FeatureMap input;
  std::vector<CellOperation> operations;
  bool reads_images = false;  // the first layer: its input are the samples' images
  bool inference = false;     // batch norms take the running statistics, not the micro-batch's

  [[nodiscard]] const FeatureMap& map(int value) const {
    return value == 0 ? input : operations[static_cast<std::size_t>(value) - 1].output;
  }
  [[nodiscard]] int output() const { return static_cast<int>(operations.size()); }
  bool operator==(const CellShape&) const = default;
};

}  // namespace weir
