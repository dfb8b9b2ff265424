// Builds a cell operation by operation: each call appends one that reads earlier values and returns
// the number of what it makes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/model/cell_shape.hpp"

namespace weir::cnn {

// Of a convolution or pooling. Where padding is left out, half the kernel's, rounded down: an
// output then has ceil(input / stride) rows where the kernel is odd.
struct Window {
  std::int64_t height = 1, width = 1;
  std::int64_t stride_y = 1, stride_x = 1;
  std::int64_t pad_y = height / 2, pad_x = width / 2;
};
[[nodiscard]] inline Window square(std::int64_t side, std::int64_t stride = 1) {
  return {.height = side, .width = side, .stride_y = stride, .stride_x = stride};
}

struct Channels {
  std::int64_t count = 0;
  std::int64_t groups = 1;
  bool bias = false;
};

class CellBuilder {
 public:
  explicit CellBuilder(const FeatureMap& input, bool reads_images = false)
      : cell_{.input = input, .operations = {}, .reads_images = reads_images} {}

  int convolution(const std::string& name, int from, const Channels& channels,
                  const Window& window);
  int batch_norm(const std::string& name, int from);
  int relu(const std::string& name, int from);
  int max_pool(const std::string& name, int from, const Window& window);
  int average_pool(const std::string& name, int from, const Window& window);
  // Every stride-th row and column, from row and column `first` on.
  int subsample(const std::string& name, int from, std::int64_t stride, std::int64_t first);
  int global_pool(const std::string& name, int from);
  int add(const std::string& name, std::vector<int> from);
  int concat(const std::string& name, std::vector<int> from);
  int upsample(const std::string& name, int from, std::int64_t factor);
  int pack(const std::string& name, std::vector<int> from);
  int slice(const std::string& name, int from, std::int64_t offset, const FeatureMap& output);

  [[nodiscard]] const FeatureMap& map(int value) const { return cell_.map(value); }
  [[nodiscard]] CellShape take() { return std::move(cell_); }

 private:
  int append(CellOperation operation);
  int windowed(CellOperationKind kind, const std::string& name, int from, std::int64_t channels,
               const Window& window);

  CellShape cell_;
};

}  // namespace weir::cnn
