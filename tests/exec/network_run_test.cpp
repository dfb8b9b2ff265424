// Networks run on cores under layouts: every block against the unsplit computation, what is
// multiplied and read from others against what is derived, for every legal layout of small networks
// of each form. What plan/layout/exchanges leaves out would be a wrong number here.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "plan/layout/read.hpp"
#include "tests/plan/written_network.hpp"

namespace weir::network_run_test {
namespace {

using cpu::NetworkDifference;
using cpu::NetworkRun;
using cpu::not_run;
using cpu::run_bytes;
using cpu::Workers;
using layout::Axes;
using layout::Collective;
using layout::Network;
using layout::NetworkLayout;
using testing::HasSubstr;
using Lines = std::vector<std::string>;

// What a device reads from others, by the collectives' formulas: of n numbers among p, 2 n (p-1)/p
// for an all-reduce and half of it for the others; and its multiply-adds.
struct Derived {
  double multiply_adds = 0, elements = 0;
};
Derived derived(const Network& network, const NetworkLayout& layout) {
  Derived all;
  for (std::size_t l = 0; l < network.layers.size(); ++l) {
    const layout::LayerShare share = layer_share(network, layout, l);
    const auto repeats = static_cast<double>(network.layers[l].repeat);
    for (const double pass : share.multiply_adds) all.multiply_adds += pass * repeats;
    for (const layout::Exchange& e : share.exchanges) {
      const auto p = static_cast<double>(members(layout, e.axes));
      const double factor = e.collective == Collective::all_reduce ? 2 : 1;
      all.elements += factor * e.elements * (p - 1) / p * static_cast<double>(e.times) * repeats;
    }
  }
  return all;
}

// Whether a move has one place split over different mesh dimensions at its two ends. It is priced
// as a slice and a gather, which supposes blocks that are numbered so that these suffice; here they
// are in order, and more is read.
bool changes_places(const Network& network, const NetworkLayout& layout) {
  for (const layout::NetworkLayer& layer : network.layers) {
    for (const layout::Operation& o : layer.operations) {
      if (o.act != layout::Act::move && o.act != layout::Act::carry) continue;
      const auto dimensions = [&](int t) {
        return layer.tensors[static_cast<std::size_t>(t)].dimensions;
      };
      const auto from = dimensions(o.inputs[0]), to = dimensions(o.output);
      for (std::size_t i = 0; i < from.size(); ++i) {
        const Axes a = layout.over[static_cast<std::size_t>(from[i])],
                   b = layout.over[static_cast<std::size_t>(to[i])];
        if (a != 0 && b != 0 && a != b) return true;
      }
    }
  }
  return false;
}

// All layouts of a mesh; calls body with the legal ones, or each so-manieth of them, and says how
// many there were.
template <class Body>
int each_legal(const Network& network, const std::vector<std::int64_t>& sizes, int every,
               const Body& body) {
  NetworkLayout layout;
  for (std::size_t m = 0; m < sizes.size(); ++m) {
    const std::string name(1, static_cast<char>('p' + m));
    layout.mesh.push_back({name, name, sizes[m]});
  }
  const std::int64_t sets = std::int64_t{1} << sizes.size();
  std::int64_t count = 1;
  for (std::size_t d = 0; d < network.dimensions.size(); ++d) count *= sets;
  int legal = 0;
  for (std::int64_t code = 0; code < count; ++code) {
    layout.over.clear();
    std::int64_t rest = code;
    for (std::size_t d = 0; d < network.dimensions.size(); ++d, rest /= sets)
      layout.over.push_back(static_cast<Axes>(rest % sets));
    if (illegal(network, layout)) continue;
    if (legal++ % every == 0) body(layout);
  }
  return legal;
}

// fp32 sums of at most some hundred numbers, a few layers deep: 2^-24 times some hundred, and as
// much again for cancellation between summands of both signs.
constexpr double kTolerance = 1e-4;

// Legal layouts on the mesh: numbers, bits, counts.
int hold(const Network& network, const std::vector<std::int64_t>& sizes, double tolerance,
         int every = 1) {
  Workers one(1);
  const NetworkLayout nowhere{"", {}, std::vector<Axes>(network.dimensions.size(), 0)};
  NetworkRun whole(network, nowhere, one, 3);
  static_cast<void>(whole.step());
  EXPECT_EQ(whole.counts()[0].multiply_adds, derived(network, nowhere).multiply_adds);
  EXPECT_EQ(whole.counts()[0].exchanged_elements, 0);
  std::int64_t processors = 1;
  for (const std::int64_t size : sizes) processors *= size;
  Workers workers(static_cast<int>(processors));
  return each_legal(network, sizes, every, [&](const NetworkLayout& layout) {
    SCOPED_TRACE(network.name + ": " + rules_text(network, layout));
    ASSERT_EQ(not_run(network, layout), std::nullopt);
    NetworkRun run(network, layout, workers, 3);
    EXPECT_EQ(run.held_bytes(), run_bytes(network, layout).numbers);
    static_cast<void>(run.step());
    // A second step in the same blocks, of those layouts that are few.
    if (sizes.size() == 1) static_cast<void>(run.step());
    EXPECT_EQ(run.held_bytes(), run_bytes(network, layout).numbers);
    const NetworkDifference difference = run.difference(whole);
    EXPECT_EQ(difference.in_order, 0);
    EXPECT_LE(difference.reordered, tolerance);
    const Derived formula = derived(network, layout);
    double read = 0;
    for (const cpu::NetworkCounts& counts : run.counts()) {
      EXPECT_EQ(counts.multiply_adds, formula.multiply_adds);
      read += counts.exchanged_elements / static_cast<double>(processors);
    }
    // On one mesh dimension a move is one collective; on several it may go by two, one after the
    // other, where each number is read here from where it is in the end.
    if (sizes.size() == 1) {
      EXPECT_NEAR(read, formula.elements, 1e-6 * formula.elements);
    }
    if (!changes_places(network, layout)) {
      EXPECT_LE(read, formula.elements * (1 + 1e-9));
    }
  });
}

Network mlp() {
  Network network{"mlp",
                  {{"batch", "b", 4},
                   {"rows", "r", 4},
                   {"tokens", "s", 4},
                   {"hidden", "h", 8},
                   {"ffn", "f", 16},
                   {"vocab", "V", 12}},
                  {}};
  add_layer(
      network, "table",
      {"weight table[vocab, hidden]", "picked[batch, tokens, hidden]", "x[batch, rows, hidden]"},
      {"picked = gather(table) over vocab", "x = move(picked)"});
  add_layer(network, "mlp",
            {"x[batch, rows, hidden]", "weight gain[hidden]", "weight shift[hidden]",
             "n[batch, rows, hidden]", "t[batch, tokens, hidden]", "weight w[hidden, ffn]",
             "u[batch, tokens, ffn]", "weight bias[ffn]", "v[batch, tokens, ffn]",
             "a[batch, tokens, ffn]", "weight d[ffn, hidden]", "z[batch, tokens, hidden]",
             "m[batch, rows, hidden]", "y[batch, rows, hidden]"},
            {"n = norm(x gain shift) over hidden", "t = move(n)", "u = t w", "v = add(u bias)",
             "a = gelu_tanh(v)", "z = a d", "m = move(z)", "y = add(x m)"},
            {}, 2);
  add_layer(network, "head",
            {"x[batch, rows, hidden]", "t[batch, tokens, hidden]", "tied table[vocab, hidden]",
             "logits[batch, tokens, vocab]", "losses[batch, tokens]"},
            {"t = move(x)", "logits = t table", "losses = loss(logits) over vocab"});
  return network;
}

// Heads, keys beside tokens, a softmax over keys that may be split, and a gated product. The keys'
// bias adds the same to all scores of a row, which changes nothing: its gradient is 0 but for
// rounding.
Network attention() {
  Network network{"attention",
                  {{"batch", "b", 2},
                   {"tokens", "s", 4},
                   {"keys", "k", 4},
                   {"hidden", "h", 8},
                   {"heads", "a", 2},
                   {"width", "c", 4},
                   {"gates", "two", 2},
                   {"ffn", "f", 4}},
                  {}};
  add_layer(
      network, "first",
      {"x[batch, tokens, hidden]", "weight w[hidden, gates, ffn]", "u[batch, tokens, gates, ffn]",
       "g[batch, tokens, ffn]", "weight v[ffn, hidden]", "y[batch, tokens, hidden]"},
      {"u = x w", "g = glu(u) over gates", "y = g v"});
  add_layer(network, "block",
            {"x[batch, tokens, hidden]", "weight gain[hidden]", "n[batch, tokens, hidden]",
             "weight wq[hidden, heads, width]", "q[batch, tokens, heads, width]",
             "weight wk[hidden, heads, width]", "k[batch, tokens, heads, width]",
             "weight bk[heads, width]", "kb[batch, tokens, heads, width]",
             "ks[batch, keys, heads, width]", "weight wv[hidden, heads, width]",
             "v[batch, tokens, heads, width]", "vs[batch, keys, heads, width]",
             "scores[batch, heads, tokens, keys]", "shares[batch, heads, tokens, keys]",
             "context[batch, tokens, heads, width]", "weight wo[heads, width, hidden]",
             "o[batch, tokens, hidden]", "y[batch, tokens, hidden]"},
            {"n = rms_norm(x gain) over hidden", "q = n wq", "k = n wk", "kb = add(k bk)",
             "ks = move(kb)", "v = n wv", "vs = move(v)", "scores = q ks",
             "shares = softmax(scores) over keys", "context = shares vs", "o = context wo",
             "y = add(x o)"});
  return network;
}

Network recurrent() {
  Network network{"recurrent",
                  {{"batch", "b", 4},
                   {"time", "t", 5},
                   {"hidden", "h", 8},
                   {"units", "u", 8},
                   {"vocab", "v", 8}},
                  {}};
  add_layer(network, "table", {"weight table[vocab, hidden]", "x[batch, time, hidden]"},
            {"x = gather(table) over vocab"});
  // A state that is carried under another name, one under its own, and a product of all steps
  // before the first.
  add_layer(
      network, "cell",
      {"x[batch, time, hidden]", "weight wx[hidden, units]", "a[batch, time, units]",
       "at[batch, units]", "state h[batch, hidden]", "weight wh[hidden, units]", "b[batch, units]",
       "s[batch, units]", "state c[batch, units]", "f[batch, units]", "m[batch, units]",
       "n[batch, units]", "all[batch, time, units]", "y[batch, time, hidden]"},
      {"a = x wx", "at = step(a) over time", "b = h wh", "s = add(at b)", "f = sigmoid(s)",
       "m = weigh(f c)", "n = add(m f)", "c = carry(n) over time", "h = carry(n) over time",
       "all = stack(n) over time", "y = move(all)"},
      {}, 2);
  return network;
}

Network branches() {
  Network network{"branches",
                  {{"batch", "b", 4},
                   {"hidden", "h", 8},
                   {"ffn", "f", 8},
                   {"inner", "i", 4},
                   {"vocab", "V", 8}},
                  {}};
  const Lines head = {"x[batch, hidden]", "weight w[hidden, vocab]", "logits[batch, vocab]",
                      "losses[batch]"};
  const Lines loss = {"logits = x w", "losses = loss(logits) over vocab"};
  add_layer(network, "stem", {"weight table[vocab, hidden]", "x[batch, hidden]"},
            {"x = gather(table) over vocab"});
  add_layer(network, "wide",
            {"x[batch, hidden]", "weight w[hidden, ffn]", "u[batch, ffn]", "a[batch, ffn]",
             "weight v[ffn, hidden]", "z[batch, hidden]"},
            {"u = x w", "a = tanh(u)", "z = a v"});
  add_layer(network, "aside", head, loss);
  add_layer(network, "join",
            {"x[batch, hidden]", "l[batch, hidden]", "c[batch, hidden]", "weight w[hidden, inner]",
             "u[batch, inner]", "weight v[inner, hidden]", "z[batch, hidden]", "p[batch, hidden]",
             "y[batch, hidden]"},
            {"u = x w", "z = u v", "p = weigh(l c)", "y = add(z p)"}, Lines{"stem", "wide", "data"},
            3);
  add_layer(network, "head", head, loss);
  finish_network(network);
  return network;
}

// ZeRO's third stage: weights under another dimension than they are read under, gains and biases
// too.
Network sharded() {
  Network network{"sharded",
                  {{"batch", "b", 4},
                   {"hidden", "h", 8},
                   {"shard", "z", 8},
                   {"ffn", "f", 4},
                   {"vocab", "V", 8}},
                  {}};
  add_layer(network, "table",
            {"weight kept[vocab, shard]", "table[vocab, hidden]", "x[batch, hidden]"},
            {"table = move(kept)", "x = gather(table) over vocab"});
  add_layer(
      network, "mlp",
      {"x[batch, hidden]", "weight gain_kept[shard]", "gain[hidden]", "n[batch, hidden]",
       "weight w_kept[shard, ffn]", "w[hidden, ffn]", "u[batch, ffn]", "a[batch, ffn]",
       "weight v_kept[ffn, shard]", "v[ffn, hidden]", "z[batch, hidden]", "weight bias_kept[shard]",
       "bias[hidden]", "y[batch, hidden]"},
      {"gain = move(gain_kept)", "n = rms_norm(x gain) over hidden", "w = move(w_kept)", "u = n w",
       "a = relu(u)", "v = move(v_kept)", "z = a v", "bias = move(bias_kept)", "y = add(x z bias)"},
      {}, 2);
  return network;
}

Network two_products() {
  Network network{"two", {{"batch", "b", 4}, {"io", "i", 8}, {"hidden", "h", 4}}, {}};
  add_layer(network, "one",
            {"x[batch, io]", "weight w[io, hidden]", "y[batch, hidden]", "weight v[hidden, io]",
             "z[batch, io]"},
            {"y = x w", "z = y v"});
  return network;
}

TEST(NetworkRuns, EveryLegalLayoutGivesTheUnsplitNumbers) {
  for (const Network& network : {mlp(), attention(), recurrent(), branches(), sharded()}) {
    EXPECT_GT(hold(network, {2}, kTolerance), 5) << network.name;
    // Of four processors a sample, which runs through all rules.
    EXPECT_GT(hold(network, {2, 2}, kTolerance, 29), 20) << network.name;
  }
}

// Whole numbers, products and sums alone: fp32 rounds nothing, and every layout has the same bits,
// whatever the order of its sums.
TEST(NetworkRuns, LinearNetworksAreBitwiseEqual) {
  Network network{"linear", {{"batch", "b", 4}, {"io", "i", 8}, {"hidden", "h", 8}}, {}};
  add_layer(network, "one",
            {"x[batch, io]", "weight w[io, hidden]", "u[batch, hidden]", "weight v[hidden, io]",
             "y[batch, io]"},
            {"u = x w", "y = u v"}, {}, 2);
  EXPECT_EQ(hold(network, {2, 2}, 0), 16);
}

// x w = y, y v = z. With batch split sums over batch alone have another order, those of the
// weights' gradients; x gets none, as it is data. With io split y is the sum of two parts, and so
// z, whose factor it is, and v's gradient; y's own gradient, which w's reads, is summed over io,
// too.
TEST(NetworkRuns, WhichTensorsKeepTheirOrder) {
  const Network network = two_products();
  Workers one(1), both(2);
  NetworkRun whole(network, {"", {}, {0, 0, 0}}, one, 3);
  static_cast<void>(whole.step());
  const auto apart = [&](std::vector<Axes> over) {
    NetworkRun run(network, {"", {{"p", "p", 2}}, std::move(over)}, both, 3);
    static_cast<void>(run.step());
    return run.difference(whole);
  };
  EXPECT_EQ(apart({1, 0, 0}).tensors_in_order, 5);
  EXPECT_EQ(apart({1, 0, 0}).tensors_reordered, 2);
  EXPECT_EQ(apart({0, 1, 0}).tensors_in_order, 3);
  EXPECT_EQ(apart({0, 1, 0}).tensors_reordered, 4);
}

// Numbers of one processor: values x 4 8, w 8 4, y 4 4, v 4 8 and z 4 8, 144; gradients of all but
// the data x, 112; and to make y's, which has `hidden` last, of v a copy that has it so, 32. On two
// with batch over them x, y and z have half: 104 + 88 + 32 each.
TEST(NetworkRuns, WhatARunHolds) {
  Network network = two_products();
  const NetworkLayout one{"", {}, {0, 0, 0}}, two{"", {{"p", "p", 2}}, {1, 0, 0}};
  EXPECT_EQ(run_bytes(network, one).numbers, 4 * (144 + 112 + 32));
  EXPECT_EQ(run_bytes(network, two).numbers, 2 * 4 * (104 + 88 + 32));
  // A thousand repetitions have blocks of their own, gradients of x among them, which is now what
  // the one before has made; and one copy at a time.
  network.layers[0].repeat = 1000;
  EXPECT_EQ(run_bytes(network, one).numbers, 4 * (1000 * (144 + 144) + 32));
  EXPECT_GT(run_bytes(network, one).all, run_bytes(network, one).numbers);
}

TEST(NetworkRuns, WhatIsNotRunIsSaid) {
  const layout::LayoutFile file = layout::load_layouts(std::filesystem::path(WEIR_SOURCE_DIR) /
                                                       "tools/examples/layouts/experts.json");
  EXPECT_THAT(not_run(*file.network, file.network_layouts[0]).value_or(""),
              HasSubstr("layer mixture: chosen = choose(shares) over choices: choose is priced, "
                        "not run"));
}

}  // namespace
}  // namespace weir::network_run_test
