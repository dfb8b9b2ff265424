// Tensors that live at once, by hand.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/live_tensors.hpp"

#include <gtest/gtest.h>

#include "tests/plan/written_network.hpp"

namespace weir::live_tensors_test {
namespace {

using layout::Network;
using layout::NetworkLayout;

// x and z have 4 x 8 = 32 elements, y 4 x 2 = 8, w and v 16. Beside the forward's two operations
// live w, v, x, y: 72, and with z 104. Beside v's and y's gradient: w, v, x, y, and of the
// gradients that of z, which is given, y's and v's: 16 + 16 + 32 + 8 + 32 + 8 + 16 = 128. Beside
// w's: w, v, x, and the gradients of y, v, w: 104. The peak is 128, in fp32 512 bytes.
TEST(LiveTensors, OfTwoProducts) {
  Network network{"two", {{"batch", "b", 4}, {"io", "i", 8}, {"hidden", "h", 2}}, {}};
  add_layer(network, "one",
            {"x[batch, io]", "weight w[io, hidden]", "y[batch, hidden]", "weight v[hidden, io]",
             "z[batch, io]"},
            {"y = x w", "z = y v"});
  const LiveTensors live = live_tensors(network);
  NetworkLayout layout{"", {{"d", "d", 2}}, {0, 0, 0}};
  EXPECT_EQ(peak_live_bytes(network, layout, live, Dtype::fp32), Bytes(512));
  EXPECT_EQ(peak_live_bytes(network, layout, live, Dtype::bf16), Bytes(256));
  // Of half a batch: 16 + 16 + 16 + 4 + 16 + 4 + 16 = 88.
  layout.over = {1, 0, 0};
  EXPECT_EQ(peak_live_bytes(network, layout, live, Dtype::fp32), Bytes(4 * 88));
  // Of half of io: w, v, x, z and their gradients are halves: 8 + 8 + 16 + 8 + 16 + 8 + 8 = 72.
  layout.over = {0, 1, 0};
  EXPECT_EQ(peak_live_bytes(network, layout, live, Dtype::fp32), Bytes(4 * 72));
}

// Two repetitions of y = tanh(x) on 8 elements, with given x: forward x, y, and z; the backward of
// the second reads y, of the first x. Beside the second's gradient: x, y, z's given gradient and
// y's: 32; z itself is read by nobody and gone.
TEST(LiveTensors, RepetitionsHandOn) {
  Network network{"again", {{"batch", "b", 8}}, {}};
  add_layer(network, "one", {"x[batch]", "y[batch]"}, {"y = tanh(x)"}, {}, 2);
  const NetworkLayout layout{"", {}, {0}};
  EXPECT_EQ(peak_live_bytes(network, layout, live_tensors(network), Dtype::fp32), Bytes(4 * 32));
}

}  // namespace
}  // namespace weir::live_tensors_test
