// Steps over time, and layers that branch and join: what is derived, by hand, and against the same
// computation written without them.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "costmodel/layers/network_math.hpp"
#include "plan/layout/network_text.hpp"
#include "tests/plan/written_network.hpp"

namespace weir::network_forms_test {
namespace {

using layout::Axes;
using layout::Collective;
using layout::Exchange;
using layout::LayerShare;
using layout::Network;
using layout::NetworkLayout;
using layout::Pass;
using testing::HasSubstr;
using Lines = std::vector<std::string>;

struct Written {
  Network network;
  NetworkLayout layout{"both", {{"d", "d", 2}, {"m", "m", 2}}, {}};

  Written& add(const std::string& name, const Lines& tensors, const Lines& operations,
               std::optional<Lines> reads = {}, std::int64_t repeat = 1) {
    add_layer(network, name, tensors, operations, std::move(reads), repeat);
    return *this;
  }
  Written& split(const std::string& rules) {
    set_network_rules(rules, network, layout);
    return *this;
  }
  // "I all-reduce dx over m: 80 x 4".
  [[nodiscard]] Lines exchanges(std::size_t l) const {
    Lines lines;
    for (const Exchange& e : layer_share(network, layout, l).exchanges) {
      lines.push_back(fmt::format(
          "{} {} {}{} over {}: {} x {}", to_string(e.pass), to_string(e.collective),
          e.gradient ? "d" : "", network.layers[l].tensors[static_cast<std::size_t>(e.tensor)].name,
          axes_text(layout, e.axes), e.elements, e.times));
    }
    return lines;
  }
};

std::vector<layout::Dimension> dimensions() {
  return {{"batch", "b", 8},
          {"time", "t", 4},
          {"hidden", "h", 16},
          {"units", "u", 16},
          {"vocab", "v", 32}};
}

// n = tanh(x wx + h wh), h the n of a step ago.
Written recurrent() {
  Written w;
  w.network.dimensions = dimensions();
  w.add("table", {"weight table[vocab, hidden]", "x[batch, time, hidden]"},
        {"x = gather(table) over vocab"});
  w.add("cell",
        {"x[batch, time, hidden]", "xt[batch, hidden]", "state h[batch, hidden]",
         "weight wx[hidden, units]", "a[batch, units]", "weight wh[hidden, units]",
         "b[batch, units]", "s[batch, units]", "n[batch, units]", "y[batch, time, units]"},
        {"xt = step(x) over time", "a = xt wx", "b = h wh", "s = add(a b)", "n = tanh(s)",
         "h = carry(n) over time", "y = stack(n) over time"});
  return w;
}

// The state has 8/2 x 16 = 64 numbers a replica. Gates make it in two parts, weights read all of
// it: gathered on the way to each of 3 further steps, its gradient scattered on the way back. The
// input's gradient, of four steps, is one sum: 4 x 64. Weights: 16 x 16 / 2, once a step of
// training.
TEST(Recurrent, ByHand) {
  Written w = recurrent();
  EXPECT_EQ(w.split("batch:d,units:m").exchanges(1),
            (Lines{"F all-gather h over m: 64 x 3", "step all-reduce dwh over d: 128 x 1",
                   "step all-reduce dwx over d: 128 x 1", "I reduce-scatter dn over m: 64 x 3",
                   "I all-reduce dx over m: 256 x 1"}));
  // hidden:m instead: the products sum over it, each step, in one all-reduce of both; n is whole,
  // and the state keeps its part of it. Gradients: n's part is gathered going back.
  EXPECT_EQ(w.split("batch:d,hidden:m").exchanges(1),
            (Lines{"F all-reduce s over m: 64 x 4", "step all-reduce dwh over d: 128 x 1",
                   "step all-reduce dwx over d: 128 x 1", "I all-gather dn over m: 64 x 3"}));
  const LayerShare share = layer_share(w.network, w.layout, 1);
  // Two products a step: 4 x 2 x (4 x 16 x 8), as many for the inputs' gradients, and the weights'.
  EXPECT_EQ(share.multiply_adds[0], 4 * 2 * 4 * 16 * 8);
  EXPECT_EQ(share.multiply_adds[1], share.multiply_adds[0]);
  EXPECT_EQ(share.multiply_adds[2], share.multiply_adds[0]);
  // Kept: x of all steps (4 x 4 x 8), h and the argument of tanh of each (4 x 4 x 8, 4 x 4 x 16).
  double kept = 0;
  for (const layout::Kept& one : share.kept) kept += one.elements;
  EXPECT_EQ(kept, 128 + 128 + 256);
}

// The same four steps written one after the other: h1 = move(n1), b2 = h1 wh, ... Its first state
// is given, so that its gradient is exchanged once more, which is left out; a weight that is used
// four times has four gradients there and one here.
Written unrolled() {
  Written w;
  w.network.dimensions = dimensions();
  Lines reads, tensors{"weight wx[hidden, units]", "weight wh[hidden, units]"}, operations;
  for (const std::string t : {"h0", "x1", "x2", "x3", "x4"}) {
    w.add(t, {"weight table[vocab, hidden]", "x[batch, hidden]"}, {"x = gather(table) over vocab"},
          Lines{});
    reads.push_back(t);
    tensors.push_back(t + "[batch, hidden]");
  }
  for (int t = 1; t <= 4; ++t) {
    for (const char* name : {"a", "b", "s", "n"})
      tensors.push_back(fmt::format("{}{}[batch, units]", name, t));
    operations.push_back(fmt::format("a{0} = x{0} wx", t));
    operations.push_back(fmt::format("b{} = h{} wh", t, t - 1));
    operations.push_back(fmt::format("s{0} = add(a{0} b{0})", t));
    operations.push_back(fmt::format("n{0} = tanh(s{0})", t));
    if (t == 4) break;
    tensors.push_back(fmt::format("h{}[batch, hidden]", t));
    operations.push_back(fmt::format("h{0} = move(n{0})", t));
  }
  tensors.push_back("y[batch, units]");
  operations.push_back("y = add(n1 n2 n3 n4)");
  w.add("cell", tensors, operations, reads);
  return w;
}

using Sums = std::map<std::string, double>;
Sums sums(const Written& w, std::size_t l, const std::string& but) {
  Sums sums;
  for (const Exchange& e : layer_share(w.network, w.layout, l).exchanges) {
    const std::string& tensor =
        w.network.layers[l].tensors[static_cast<std::size_t>(e.tensor)].name;
    // W gathers a move again, and not a state, which is kept.
    if (e.pass == Pass::W || (tensor == but && e.gradient)) continue;
    sums[fmt::format("{} {} over {}", to_string(e.pass), to_string(e.collective),
                     axes_text(w.layout, e.axes))] += e.elements * static_cast<double>(e.times);
  }
  return sums;
}

TEST(Recurrent, StepsAreTheUnrolledOnes) {
  Written loop = recurrent(), flat = unrolled();
  const std::size_t cell = flat.network.layers.size() - 1;
  int legal = 0;
  for (Axes batch = 0; batch < 4; ++batch) {
    for (Axes hidden = 0; hidden < 4; ++hidden) {
      for (Axes units = 0; units < 4; ++units) {
        loop.layout.over = flat.layout.over = {batch, 0, hidden, units, 0};
        const auto why = illegal(loop.network, loop.layout);
        EXPECT_EQ(illegal(flat.network, flat.layout).has_value(), why.has_value());
        if (why) continue;
        ++legal;
        SCOPED_TRACE(rules_text(loop.network, loop.layout));
        Sums expected = sums(flat, cell, "h0");
        for (auto& [name, elements] : expected) {
          if (name.starts_with("step")) elements /= 4;
        }
        EXPECT_EQ(sums(loop, 1, ""), expected);
        const LayerShare a = layer_share(loop.network, loop.layout, 1),
                         b = layer_share(flat.network, flat.layout, cell);
        for (int pass = 0; pass < 3; ++pass)
          EXPECT_EQ(a.multiply_adds[pass], b.multiply_adds[pass]);
        EXPECT_EQ(a.weights, b.weights);
      }
    }
  }
  // Each of two mesh dimensions is on one of the three or on none.
  EXPECT_EQ(legal, 16);
}

TEST(Recurrent, WhatIsRefused) {
  const auto refusal = [](const Lines& operations) -> std::string {
    Written w;
    w.network.dimensions = dimensions();
    try {
      w.add("cell",
            {"x[batch, time, hidden]", "xt[batch, hidden]", "state h[batch, hidden]",
             "n[batch, hidden]", "y[batch, time, hidden]"},
            operations);
    } catch (const std::invalid_argument& why) {
      return why.what();
    }
    return "";
  };
  const std::string step = "xt = step(x) over time", n = "n = add(xt h)",
                    carry = "h = carry(n) over time", stack = "y = stack(n) over time";
  EXPECT_EQ(refusal({step, n, carry, stack}), "");
  EXPECT_THAT(refusal({step, n, stack}), HasSubstr("nothing carries h on"));
  EXPECT_THAT(refusal({step, n, stack, carry}), HasSubstr("h is not its output alone"));
  EXPECT_THAT(refusal({step, n, "h = move(n)", stack}), HasSubstr("h is a state: carry makes it"));
  EXPECT_THAT(refusal({step, "n = carry(xt) over time"}), HasSubstr("n is no state"));
  EXPECT_THAT(refusal({step, n, carry, "y = add(n x)"}),
              HasSubstr("x has all steps: take one by step(x)"));
  EXPECT_THAT(refusal({step, n, carry, "y = stack(n) over batch"}),
              HasSubstr("the output has its dimensions and that of the steps"));
  Written w = recurrent();
  w.split("time:d");
  EXPECT_THAT(illegal(w.network, w.layout).value_or(""),
              HasSubstr("xt = step(x) over time: each processor needs all of dimension time"));
}

// A stem that two branches read and a join that reads all three. Each branch sums its part of the
// stem's gradient; the join, which multiplies nothing, has its own whole. F keeps the stem's output
// once.
Written diamond() {
  Written w;
  w.network.dimensions = dimensions();
  w.add("stem", {"weight table[vocab, hidden]", "x[batch, hidden]"},
        {"x = gather(table) over vocab"});
  for (const char* branch : {"left", "right"}) {
    w.add(branch,
          {"x[batch, hidden]", "weight w[hidden, units]", "u[batch, units]", "a[batch, units]",
           "weight v[units, hidden]", "z[batch, hidden]"},
          {"u = x w", "a = gelu(u)", "z = a v"}, Lines{"stem"});
  }
  w.add("join", {"x[batch, hidden]", "l[batch, hidden]", "r[batch, hidden]", "y[batch, hidden]"},
        {"y = add(x l r)"}, Lines{"stem", "left", "right"});
  return w;
}

TEST(Branches, ByHand) {
  Written w = diamond();
  w.split("batch:d,units:m");
  for (const std::size_t branch : {1U, 2U}) {
    EXPECT_EQ(w.exchanges(branch),
              (Lines{"F all-reduce z over m: 64 x 1", "step all-reduce dv over d: 128 x 1",
                     "step all-reduce dw over d: 128 x 1", "I all-reduce dx over m: 64 x 1"}));
  }
  EXPECT_EQ(w.exchanges(3), Lines{});
  // left: x and u and a; right: u and a, because x is there.
  double kept[2] = {};
  for (const std::size_t branch : {1U, 2U}) {
    for (const layout::Kept& one : layer_share(w.network, w.layout, branch).kept)
      kept[branch - 1] += one.elements * one.copies(1);
  }
  EXPECT_EQ(kept[0], 64 + 32 + 32);
  EXPECT_EQ(kept[1], 32 + 32);
}

// A layer that is repeated reads its own output from the second time on, so it keeps those, and
// what another layer has kept of the first; a constant is kept once for all.
TEST(Branches, ARepeatedReader) {
  Written w = diamond();
  w.add("deep", {"x[batch, hidden]", "c[batch, hidden]", "z[batch, hidden]"}, {"z = weigh(x c)"},
        Lines{"stem", "join"}, 5);
  w.split("batch:d");
  std::map<std::string, double> copies;
  for (const layout::Kept& one : layer_share(w.network, w.layout, 4).kept)
    copies[w.network.layers[4].tensors[static_cast<std::size_t>(one.tensor)].name] = one.copies(5);
  EXPECT_EQ(copies, (std::map<std::string, double>{{"x", 4}, {"c", 1}}));
}

TEST(Branches, WhatIsRefused) {
  const auto refusal = [](const Lines& reads) -> std::string {
    Written w = diamond();
    try {
      w.add("more", {"x[batch, hidden]", "c[batch, hidden]", "z[batch, hidden]"},
            {"z = weigh(x c)"}, reads);
    } catch (const std::invalid_argument& why) {
      return why.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({"join", "data"}), "");
  EXPECT_THAT(refusal({"join"}), HasSubstr("2 values are given to it, and it reads 1 layers"));
  EXPECT_THAT(refusal({"join", "jion"}), HasSubstr("reads jion: no layer before it is called so"));
  Written w = diamond();
  w.add("lost", {"x[batch, hidden]", "z[batch, hidden]"}, {"z = gelu(x)"}, Lines{"stem"});
  w.add("end", {"x[batch, hidden]", "z[batch, hidden]"}, {"z = gelu(x)"}, Lines{"join"});
  EXPECT_THROW(finish_network(w.network), std::invalid_argument);
}

}  // namespace
}  // namespace weir::network_forms_test
