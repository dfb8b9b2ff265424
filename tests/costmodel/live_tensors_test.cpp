// Tensors that live at once, by hand.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/live_tensors.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

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

// z = move(o), o = f(x), on 8 elements. Beside the gradient of the move: x, which the gradient of f
// reads, and the gradients of z and o: 24, as many as x, o and z before. Attention's gradient reads
// what it has made as well: 32.
TEST(LiveTensors, AttentionsGradientReadsItsOutput) {
  Network network{"context", {{"batch", "b", 8}}, {}};
  add_layer(network, "one", {"x[batch]", "o[batch]", "z[batch]"}, {"o = tanh(x)", "z = move(o)"});
  const NetworkLayout layout{"", {}, {0}};
  EXPECT_EQ(peak_live_bytes(network, layout, live_tensors(network), Dtype::fp32), Bytes(4 * 24));
  network.layers[0].operations[0].act = layout::Act::attention;
  EXPECT_EQ(peak_live_bytes(network, layout, live_tensors(network), Dtype::fp32), Bytes(4 * 32));
}

// A block with a residual stream, whose first branch is read by nobody's gradient.
void add_block(Network& network, const std::string& name, const std::vector<std::string>& reads,
               std::int64_t repeat) {
  add_layer(network, name,
            {"x[batch, io]", "m[batch, io]", "weight w[io, hidden]", "y[batch, hidden]",
             "a[batch, hidden]", "weight v[hidden, io]", "z[batch, io]", "s[batch, io]"},
            {"m = move(x)", "y = m w", "a = gelu(y)", "z = a v", "s = add(x z)"}, reads, repeat);
}

// Twelve repetitions are twelve layers one behind the other, whatever of a tensor a device has; a
// layer after them reads their output, and one more layer the first input again.
TEST(LiveTensors, OfRepetitionsAreThoseOfAsManyLayers) {
  const Network empty{"deep", {{"batch", "b", 4}, {"io", "i", 6}, {"hidden", "h", 10}}, {}};
  for (const std::int64_t repeat : {7, 8, 12}) {
    Network repeated = empty, written = empty;
    for (Network* one : {&repeated, &written})
      add_layer(*one, "in", {"x[batch, io]", "y[batch, io]"}, {"y = tanh(x)"});
    add_block(repeated, "block", {"in"}, repeat);
    for (std::int64_t copy = 0; copy < repeat; ++copy) {
      const std::string before = copy == 0 ? "in" : "b" + std::to_string(copy - 1);
      add_block(written, "b" + std::to_string(copy), {before}, 1);
    }
    const std::string last = "b" + std::to_string(repeat - 1);
    for (Network* one : {&repeated, &written}) {
      add_layer(*one, "out", {"x[batch, io]", "first[batch, io]", "y[batch, io]"},
                {"y = add(x first)"},
                std::vector<std::string>{one == &repeated ? "block" : last, "in"});
    }
    const LiveTensors few = live_tensors(repeated), all = live_tensors(written);
    NetworkLayout layout{"", {{"a", "a", 2}}, {0, 0, 0}};
    for (std::size_t split = 0; split < 3; ++split) {
      layout.over = {0, 0, 0};
      layout.over[split] = 1;
      EXPECT_EQ(peak_live_bytes(repeated, layout, few, Dtype::fp32),
                peak_live_bytes(written, layout, all, Dtype::fp32))
          << repeat << " over " << repeated.dimensions[split].name;
    }
    // Dimensions of other sizes weigh the kinds otherwise.
    for (Network* one : {&repeated, &written}) one->dimensions[2].size = 1000;
    EXPECT_EQ(peak_live_bytes(repeated, {"", {}, {0, 0, 0}}, few, Dtype::fp32),
              peak_live_bytes(written, {"", {}, {0, 0, 0}}, all, Dtype::fp32));
  }
}

// Of a million repetitions as soon as of eight: the peak grows by the same bytes each.
TEST(LiveTensors, DepthCostsNothing) {
  const auto peak = [](std::int64_t repeat) {
    Network network{"deep", {{"batch", "b", 4}, {"io", "i", 6}, {"hidden", "h", 10}}, {}};
    add_layer(network, "in", {"x[batch, io]", "y[batch, io]"}, {"y = tanh(x)"});
    add_block(network, "block", {"in"}, repeat);
    return peak_live_bytes(network, {"", {}, {0, 0, 0}}, live_tensors(network), Dtype::fp32)
        .count();
  };
  EXPECT_EQ(peak(1'000'000), peak(8) + (1'000'000 - 8) * (peak(9) - peak(8)));
}

}  // namespace
}  // namespace weir::live_tensors_test
