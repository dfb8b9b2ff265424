// How convolutions are cut into rows of windows: by hand, and by counting.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/unfolding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plan/model/cell_shape.hpp"

namespace weir::unfolding_test {
namespace {

CellOperation convolution(FeatureMap output, std::int64_t side, std::int64_t stride,
                          std::int64_t pad, std::int64_t groups = 1) {
  CellOperation o;
  o.kind = CellOperationKind::convolution;
  o.output = output;
  o.kernel_y = o.kernel_x = side;
  o.stride_y = o.stride_x = stride;
  o.pad_y = o.pad_x = pad;
  o.groups = groups;
  return o;
}

// 3 x 3 windows of 5 channels are rows of 45 numbers, padded to 48; of 3 images of 4 x 4 outputs 48
// rows. 4 bytes a number: 12 KiB in all, 3 KiB an image, 768 bytes a line.
TEST(Unfolding, ByHand) {
  const FeatureMap input{5, 4, 4};
  const CellOperation o = convolution({7, 4, 4}, 3, 1, 1);
  const Unfolding whole = unfolding(input, o, 3);
  EXPECT_TRUE(whole.unfolds && whole.orders);
  EXPECT_EQ(whole.row(), 48);
  ASSERT_EQ(whole.runs(4).size(), 1U);
  ASSERT_EQ(whole.bands.size(), 1U);
  EXPECT_EQ(whole.bands[0].images, 3);
  EXPECT_EQ(whole.rows_of(whole.bands[0]), 48);
  // 7 KiB hold 37 rows, of which 32 go together, and two images.
  const Unfolding halves = unfolding(input, o, 3, {.bytes = 7 << 10});
  ASSERT_EQ(halves.runs(4).size(), 2U);
  EXPECT_EQ(halves.runs(4)[1].first, 32);
  EXPECT_EQ(halves.runs(4)[1].count, 16);
  ASSERT_EQ(halves.bands.size(), 2U);
  EXPECT_EQ(halves.bands[0].images, 2);
  EXPECT_EQ(halves.bands[1].image, 2);
  // 2400 bytes hold three lines of outputs, which see one line of the input: each image is four
  // bands, the first and the last of two lines of outputs.
  const Unfolding lines = unfolding(input, o, 3, {.bytes = 2400});
  ASSERT_EQ(lines.bands.size(), 12U);
  EXPECT_EQ(lines.bands[0].outputs, 2);
  EXPECT_EQ(lines.bands[1].first_output, 0);
  EXPECT_EQ(lines.bands[1].outputs, 3);
  EXPECT_EQ(lines.bands[3].first_output, 2);
  EXPECT_EQ(lines.bands[3].outputs, 2);
}

// Place by place a map is its rows; every other place is unfolded, and its weights are in order
// where eight divide the channels.
TEST(Unfolding, NothingWhereAMapIsItsRows) {
  const Unfolding same = unfolding({6, 5, 5}, convolution({4, 5, 5}, 1, 1, 0), 2);
  EXPECT_FALSE(same.unfolds || same.orders);
  EXPECT_EQ(same.row(), 6);
  EXPECT_TRUE(same.bands.empty());
  ASSERT_EQ(same.runs(4).size(), 1U);
  EXPECT_EQ(same.runs(4)[0].count, 50);
  const Unfolding apart = unfolding({16, 6, 6}, convolution({4, 3, 3}, 1, 2, 0), 2);
  EXPECT_TRUE(apart.unfolds && !apart.orders);
  const Unfolding grouped = unfolding({16, 6, 6}, convolution({4, 6, 6}, 3, 1, 1, 4), 2);
  EXPECT_EQ(grouped.group_row, 40);
  EXPECT_EQ(grouped.row(), 160);
}

// 64 x 64 numbers are one tile of 128: 100,352 rows (32 images of 56 x 56) go in parts of 4096, of
// which there are 24, and 2048 are left. 512 x 4608 are 144 tiles, enough for every multiprocessor;
// and 8000 rows are less than two parts.
TEST(Unfolding, LongSumsInParts) {
  const Unfolding few = unfolding({64, 56, 56}, convolution({64, 56, 56}, 1, 1, 0), 32);
  ASSERT_EQ(few.runs(2).size(), 1U);
  const RowParts parts = few.parts(few.runs(2).front());
  EXPECT_EQ(parts.count, 24);
  EXPECT_EQ(parts.rows, 4096);
  EXPECT_EQ(parts.rest, 2048);
  EXPECT_EQ(parts.sums(), 25);
  const Unfolding many = unfolding({512, 7, 7}, convolution({512, 7, 7}, 3, 1, 1), 1000);
  EXPECT_EQ(many.parts({0, 49'000}).sums(), 1);
  EXPECT_EQ(few.parts({0, 8000}).sums(), 1);
  EXPECT_EQ(few.parts({0, 8000}).rows, 8000);
}

// Whatever fits at a time: each output is in one run, each line of the input in one band, whose
// outputs are all that see it; and no more is unfolded than fits, or than one line needs.
TEST(Unfolding, EveryOutputAndEveryLineOnce) {
  const FeatureMap input{3, 11, 9};
  for (const CellOperation& o : {convolution({4, 11, 9}, 3, 1, 1), convolution({4, 6, 5}, 3, 2, 1),
                                 convolution({4, 6, 5}, 7, 2, 3), convolution({4, 5, 4}, 1, 2, -1),
                                 convolution({4, 9, 7}, 3, 1, 0)}) {
    for (const std::int64_t most : {1, 3000, 9000, 60'000, 1 << 20}) {
      const Unfolding u = unfolding(input, o, 5, {.bytes = most});
      std::int64_t next = 0;
      for (const PlaceRun& run : u.runs(2)) {
        EXPECT_EQ(run.first, next);
        next += run.count;
      }
      EXPECT_EQ(next, 5 * o.output.places());
      std::vector<int> seen(5 * 11);
      for (const LineBand& band : u.bands) {
        const std::int64_t needed = (o.kernel_y + o.stride_y - 1) / o.stride_y * u.width;
        EXPECT_LE(u.rows_of(band) * u.row() * 4, std::max(most, needed * u.row() * 4));
        for (int image = band.image; image < band.image + band.images; ++image) {
          for (int y = band.first; y < band.first + band.count; ++y) {
            ++seen[static_cast<std::size_t>(image) * 11 + static_cast<std::size_t>(y)];
            for (std::int64_t oy = 0; oy < o.output.height; ++oy) {
              const std::int64_t begin = oy * o.stride_y - o.pad_y;
              if (y < begin || y >= begin + o.kernel_y) continue;
              EXPECT_GE(oy, band.first_output);
              EXPECT_LT(oy, band.first_output + band.outputs);
            }
          }
        }
      }
      EXPECT_TRUE(std::ranges::all_of(seen, [](int times) { return times == 1; }));
    }
  }
}

}  // namespace
}  // namespace weir::unfolding_test
