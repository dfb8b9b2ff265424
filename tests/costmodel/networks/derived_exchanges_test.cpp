// Exchanges that are derived of small networks, by hand.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/layers/network_math.hpp"
#include "plan/layout/network_text.hpp"
#include "tests/plan/written_network.hpp"

namespace weir::derived_exchanges_test {
namespace {

using layout::Exchange;
using layout::Network;
using layout::NetworkLayout;
using testing::HasSubstr;

// Two layers of one sum each, b = 8, s = 4, h = 16, f = 32, on d = 2 and m = 4.
struct Small {
  Network network{"small",
                  {{"batch", "b", 8},
                   {"rows", "r", 4},
                   {"tokens", "s", 4},
                   {"hidden", "h", 16},
                   {"ffn", "f", 32}},
                  {}};
  NetworkLayout layout{"both", {{"d", "d", 2}, {"m", "m", 4}}, {}};

  explicit Small(const std::string& rules) {
    add_layer(network, "first",
              {"x[batch, rows, hidden]", "weight g[hidden]", "n[batch, rows, hidden]"},
              {"n = norm(x g) over hidden"});
    add_layer(network, "mlp",
              {"x[batch, rows, hidden]", "t[batch, tokens, hidden]", "weight w[hidden, ffn]",
               "u[batch, tokens, ffn]", "a[batch, tokens, ffn]", "weight v[ffn, hidden]",
               "z[batch, tokens, hidden]", "y[batch, rows, hidden]"},
              {"t = move(x)", "u = t w", "a = gelu(u)", "z = a v", "y = move(z)"});
    set_network_rules(rules, network, layout);
  }
  // "F all-reduce z over m: 512" for each exchange of the second layer.
  [[nodiscard]] std::vector<std::string> exchanges() const {
    std::vector<std::string> lines;
    for (const Exchange& e : layer_share(network, layout, 1).exchanges) {
      lines.push_back(fmt::format(
          "{} {} {}{} over {}: {}", to_string(e.pass), to_string(e.collective),
          e.gradient ? "d" : "", network.layers[1].tensors[static_cast<std::size_t>(e.tensor)].name,
          axes_text(layout, e.axes), e.elements));
    }
    return lines;
  }
};
using Lines = std::vector<std::string>;

// A replica's tokens are 4 x 4 x 16 = 256 numbers. z = a v sums over the split ffn, and so does dt:
// two all-reduces. Weights' gradients sum over the split batch: 16 x 32 / 4 = 128 numbers each.
TEST(DerivedExchanges, OfAnMlp) {
  EXPECT_EQ(Small("batch:d,ffn:m").exchanges(),
            (Lines{"F all-reduce y over m: 256", "step all-reduce dv over d: 128",
                   "step all-reduce dw over d: 128", "I all-reduce dx over m: 256"}));
}

// With rows split, the input is gathered and the sum scattered, in F and mirrored in I; W, a pass
// of its own, gathers the input and the output's gradient again.
TEST(DerivedExchanges, SequenceParallelismIsOneRuleMore) {
  EXPECT_EQ(Small("ffn:m,rows:m").exchanges(),
            (Lines{"F all-gather t over m: 512", "F reduce-scatter y over m: 512",
                   "I all-gather dz over m: 512", "W all-gather dz over m: 512",
                   "W all-gather t over m: 512", "I reduce-scatter dx over m: 512"}));
}

// Where both sides of a move are split over the same mesh dimension at other places, the blocks are
// exchanged all to all: rows against the hidden dimension would be one, batch stays.
TEST(DerivedExchanges, NothingWhereBothSidesAreSplitAlike) {
  EXPECT_EQ(Small("batch:d,rows:m,tokens:m").exchanges(),
            (Lines{"step all-reduce dv over d*m: 512", "step all-reduce dw over d*m: 512"}));
}

// Hidden split over m: u is summed over it, z's gradient meets v's split, and the input's own is
// whole where it was split: the mirror image of Megatron's cut.
TEST(DerivedExchanges, SplitAlongTheResidualStream) {
  EXPECT_EQ(Small("hidden:m").exchanges(),
            (Lines{"F all-reduce u over m: 1024", "I all-reduce da over m: 1024"}));
}

// By hand: 24 numbers of a weight on d=2, m=2, its gradient a partial sum over d. Divided over
// both, a half of the gradient is left out and the other scattered; over m alone, where no sum is,
// each half is all-reduced over d.
TEST(MegatronsCutIsALayout, WhoSharesTheOptimizersNumbers) {
  Network network{"one", {{"batch", "b", 4}, {"io", "i", 4}, {"hidden", "h", 6}}, {}};
  add_layer(network, "one", {"x[batch, io]", "weight w[io, hidden]", "y[batch, hidden]"},
            {"y = x w"});
  NetworkLayout layout{"", {{"d", "d", 2}, {"m", "m", 2}}, {}};
  const auto lines = [&](const std::string& rules) {
    set_network_rules(rules, network, layout);
    EXPECT_EQ(illegal(network, layout), std::nullopt);
    std::vector<std::string> all;
    for (const Exchange& e : layer_share(network, layout, 0).exchanges)
      all.push_back(fmt::format("{} {} {} over {}{}", to_string(e.pass), to_string(e.collective),
                                e.elements, axes_text(layout, e.axes), e.fp32 ? " fp32" : ""));
    return all;
  };
  EXPECT_EQ(lines("batch:d"), (Lines{"step all-reduce 24 over d fp32"}));
  EXPECT_EQ(lines("batch:d,optimizer:d"),
            (Lines{"step reduce-scatter 24 over d fp32", "step all-gather 24 over d"}));
  EXPECT_EQ(lines("batch:d,optimizer:d,gradients:d"),
            (Lines{"W reduce-scatter 24 over d fp32", "step all-gather 24 over d"}));
  EXPECT_EQ(lines("batch:d,optimizer:d,optimizer:m"),
            (Lines{"step reduce-scatter 12 over d fp32", "step all-gather 24 over d*m"}));
  EXPECT_EQ(lines("batch:d,optimizer:m"),
            (Lines{"step all-reduce 12 over d fp32", "step all-gather 24 over m"}));
  // Split over m itself, the weight's block is divided over d alone.
  EXPECT_EQ(lines("batch:d,hidden:m,optimizer:d,optimizer:m"),
            (Lines{"step reduce-scatter 12 over d fp32", "step all-gather 12 over d"}));
  set_network_rules("batch:d,gradients:d", network, layout);
  EXPECT_THAT(illegal(network, layout).value_or(""),
              HasSubstr("gradients are split over d and the optimizer's numbers over nothing"));
}

}  // namespace
}  // namespace weir::derived_exchanges_test
