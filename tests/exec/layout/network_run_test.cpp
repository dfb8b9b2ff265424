// Networks run on cores under layouts: every block against the unsplit computation, what is
// multiplied and read from others against what is derived, for every legal layout of small networks
// of each form. What plan/layout/exchanges leaves out would be a wrong number here.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/exec/layout/held_networks.hpp"
#include "tests/plan/written_network.hpp"

namespace weir::network_run_test {
namespace {

using cpu::NetworkRun;
using cpu::not_run;
using cpu::run_bytes;
using cpu::Workers;
using held_networks::hold;
using held_networks::kTolerance;
using layout::Axes;
using layout::Network;
using layout::NetworkLayout;
using testing::HasSubstr;
using Lines = std::vector<std::string>;

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
    EXPECT_GT(hold(network, {2, 2}, kTolerance, 20), 20) << network.name;
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
  const auto turned = [](const std::string& by, std::int64_t width) {
    Network network{"turned", {{"batch", "b", 4}, {"tokens", "s", 4}, {"width", "c", width}}, {}};
    add_layer(network, "one",
              {"x[batch, tokens, width]", "weight w[batch, tokens, width]",
               "y[batch, tokens, width]", "z[batch, tokens, width]"},
              {"y = weigh(x w)", by});
    return not_run(network, {"", {{"m", "m", 2}}, {0, 0, 1}}).value_or("");
  };
  EXPECT_THAT(turned("z = turn(y)", 8),
              HasSubstr("layer one: z = turn(y) is priced, not run: write over which dimension"));
  EXPECT_THAT(turned("z = turn(y) over tokens", 6),
              HasSubstr("a block of width has no whole pairs"));
  EXPECT_EQ(turned("z = turn(y) over tokens", 8), "");
}

}  // namespace
}  // namespace weir::network_run_test
