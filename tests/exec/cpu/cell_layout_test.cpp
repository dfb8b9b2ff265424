// What a cell keeps, carries and hands on.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "plan/model/cnn/cell_builder.hpp"
#include "plan/model/layer_tensors.hpp"
#include "tests/exec/tiny_cnn.hpp"

namespace weir::cell_layout_test {
namespace {

// conv > norm > relu > conv on a 4 x 4 map of 2 channels. Saved: the norm's input, until I; the
// second convolution's input, until W; the norm's moments and the rectifier's 32 signs. The norm's
// output lies in workspace. Backwards the gradients of both convolutions' outputs are kept for W:
// the first carried, the last the layer's own; two lie in workspace, one after the other.
TEST(CellLayout, OfAConvolutionANormAndARectifier) {
  cnn::CellBuilder builder({2, 4, 4});
  int value = builder.convolution("a", 0, {.count = 2}, cnn::square(3));
  value = builder.relu("r", builder.batch_norm("n", value));
  builder.convolution("b", value, {.count = 2}, cnn::square(1));
  const Layer layer{"cell", builder.take(), "cell"};
  const LayerTensors t = layer_tensors(layer, 0, Dtype::fp32);
  ASSERT_EQ(t.saved.size(), 4U);
  EXPECT_EQ(t.saved[0].name, "a.output");
  EXPECT_EQ(t.saved[0].bytes_per_sample, 32 * 4);
  EXPECT_EQ(t.saved[0].until, KeptUntil::I);
  EXPECT_EQ(t.saved[1].name, "r.output");
  EXPECT_EQ(t.saved[1].until, KeptUntil::W);
  EXPECT_EQ(t.saved[2].name, "n.statistics");
  EXPECT_EQ(t.saved[3].bytes_per_sample, 4);
  EXPECT_EQ(t.workspace_f_bytes_per_sample, 32 * 4);
  ASSERT_EQ(t.carried.size(), 2U);
  EXPECT_EQ(t.carried[0].name, "a.output.gradient");
  EXPECT_EQ(t.carried[1].name, "n.gradients");
  EXPECT_EQ(t.workspace_i_bytes_per_sample, 2 * 32 * 4);
  EXPECT_TRUE(t.saves_input);
  EXPECT_TRUE(t.w_needs_output_gradient);
  // 2 x 2 x 9 + 2 x 2 x 1 weights, a gain and a shift a channel; the running statistics are none.
  EXPECT_EQ(parameter_count(layer), 36 + 4 + 4);
  ASSERT_EQ(t.parameters.size(), 5U);
  EXPECT_TRUE(t.parameters[3].running.has_value());
}

// A boundary carries the map and what is stashed for the way up.
TEST(CellLayout, UNetHandsItsStashedMapsOn) {
  const TinyModel model(tiny_unet());
  const ResolvedPlan loaded = model.load(model.plan({}, 1));
  // [x1 | s0]: 4 channels of 4 x 4 and of 8 x 8; [x2 | s1 s0]: 8 of 2 x 2, 8 of 4 x 4, s0; the
  // bottleneck's 8 of 2 x 2 with both; a decoder's 4 of 4 x 4 with s0; the last one's 2 of 8 x 8.
  const std::int64_t s0 = 4 * 64, s1 = 8 * 16;
  const std::int64_t numbers[] = {4 * 16 + s0, 8 * 4 + s1 + s0, 8 * 4 + s1 + s0, 4 * 16 + s0,
                                  2 * 64};
  for (int l = 0; l < 5; ++l)
    EXPECT_EQ(loaded.part->layer(l).tensors.output_bytes_per_sample, numbers[l] * 4) << l;
}

}  // namespace
}  // namespace weir::cell_layout_test
