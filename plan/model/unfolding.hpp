// How the CUDA executor makes matrix products of a convolution: each output's window becomes a row,
// [group, y, x, channel], of which a group's part is padded to a multiple of eight numbers, so that
// products have aligned rows; for the input's gradient rows of products are folded again. What is
// unfolded at a time is bounded, and cut by the shape alone, so that sums have one order for every
// K. A convolution place by place finds its rows in the map, and unfolds nothing. The executor
// works by this, and the cost model lists its kernels by it.
//
// C++17, because nvcc reads it too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace weir {

struct CellOperation;
struct FeatureMap;

// `count` outputs from the `first`-th of all images' on.
struct PlaceRun {
  std::int64_t first = 0, count = 0;
};

// Lines of the input, of one image or all lines of several; and the lines of outputs that see them.
struct LineBand {
  std::int32_t image = 0, images = 1;
  std::int32_t first = 0, count = 0;
  std::int32_t first_output = 0, outputs = 0;
};

// How a run's rows are summed to a weight's gradient: in equal parts beside each other, and one of
// what is left.
struct RowParts {
  std::int64_t count = 1, rows = 0, rest = 0;
  [[nodiscard]] std::int64_t sums() const { return count + (rest > 0 ? 1 : 0); }
};

// Chosen, not measured: no device has run them.
struct UnfoldingLimits {
  // Bytes at a time, but for windows that have more: about as much as a large device's second-level
  // cache, and rows enough for a product.
  std::int64_t bytes = std::int64_t{64} << 20;
  std::int64_t part_rows = 4096;  // of a part at least
};

struct Unfolding {
  bool unfolds = false;
  bool orders = false;  // weights, to the order of a row
  std::int64_t groups = 1;
  std::int64_t outputs = 1;    // channels of a group
  std::int64_t group_row = 1;  // numbers of a group in a row
  std::int64_t places = 1;     // rows of all images
  std::int64_t width = 1;      // rows of a line of outputs
  UnfoldingLimits limits;
  std::vector<LineBand> bands;  // of which the input's gradient is made; empty: nothing is unfolded

  [[nodiscard]] std::int64_t row() const { return groups * group_row; }
  [[nodiscard]] std::int64_t rows_of(const LineBand& band) const {
    return std::int64_t{band.images} * band.outputs * width;
  }
  // All rows, at most so many at once; `element`: the bytes of a number.
  [[nodiscard]] std::vector<PlaceRun> runs(std::int64_t element) const;
  // A gradient of few numbers is a long sum that few multiprocessors would make: its parts are made
  // beside each other, then added in order.
  [[nodiscard]] RowParts parts(const PlaceRun& run) const;
};

[[nodiscard]] Unfolding unfolding(const FeatureMap& input, const CellOperation& convolution,
                                  std::int64_t images, const UnfoldingLimits& limits = {});

}  // namespace weir
