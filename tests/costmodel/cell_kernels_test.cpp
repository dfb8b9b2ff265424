// The kernels of a cell by hand: a convolution of 3 x 3 windows and its norm, two samples of 16
// channels of 8 x 8 to 32, in bf16.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/cell_kernels.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "plan/model/cnn/cell_builder.hpp"

namespace weir::cell_kernels_test {
namespace {

// 128 places, whose windows are rows of 9 x 16 = 144 numbers, with no zeros at their end: 36,864
// bytes unfolded, 73,728 in fp32. Weights: 32 x 144 = 4,608, that is 9,216 bytes and 18,432 in
// fp32. Input: 2,048 numbers, 4,096 bytes; output: 4,096 numbers, 8,192 bytes. Each product is of
// 2 x 128 x 32 x 144 = 1,179,648 FLOPs. All of it fits at once, and sums over 128 rows are not cut.
//
// Moments: 64 places at a time, so two rows of partial sums of 32 in fp32, 256 bytes; a vector of
// the channels has 128.
TEST(CellKernels, AConvolutionAndItsNormByHand) {
  cnn::CellBuilder cell({16, 8, 8});
  cell.batch_norm("norm", cell.convolution("conv", 0, {.count = 32}, cnn::square(3)));
  using Row = std::tuple<std::string, std::string, std::int64_t, std::int64_t, double>;
  constexpr double kFlops = 1'179'648;
  const std::vector<Row> expected = {
      // Read and written in another order.
      {"F", "order_weights_kernel", 2 * 9216, 1, 0},
      {"F", "unfold_windows_kernel", 4096 + 36'864, 1, 0},
      {"F", "product: convolution", 36'864 + 9216 + 8192, 1, kFlops},
      // Once for means, once for variances about them.
      {"F", "channel_partials_kernel", 8192 + 256, 2, 0},
      {"F", "sum_parts_kernel", 256 + 128, 2, 0},
      // Means, variances, gains and shifts beside the values.
      {"F", "batch_norm_kernel", 2 * 8192 + 4 * 128, 1, 0},
      // Both sums at once, of the gradient and of its product with the value.
      {"B", "channel_partials_kernel", 2 * 8192 + 2 * 256, 1, 0},
      {"B", "sum_parts_kernel", 2 * (256 + 128), 1, 0},
      {"B", "batch_norm_gradient_kernel", 3 * 8192 + 5 * 128, 1, 0},
      {"B", "order_weights_kernel", 2 * 9216, 1, 0},
      {"B", "product: convolution input", 8192 + 9216 + 73'728, 1, kFlops},
      {"B", "fold_windows_kernel", 73'728 + 4096, 1, 0},
      {"B", "accumulate_kernel", 4 * 128, 1, 0},
      {"B", "add_moments_kernel", 6 * 128, 1, 0},
      {"B", "unfold_windows_kernel", 4096 + 36'864, 1, 0},
      {"B", "product: convolution weight", 8192 + 36'864 + 18'432, 1, kFlops},
      {"B", "add_ordered_kernel", 2 * 18'432, 1, 0}};
  std::vector<Row> found;
  for (const CellKernel& kernel : cell_kernels(cell.take(), 2, 2)) {
    found.emplace_back(kernel.action, kernel.name, kernel.bytes, kernel.calls,
                       kernel.flops.count());
  }
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace weir::cell_kernels_test
