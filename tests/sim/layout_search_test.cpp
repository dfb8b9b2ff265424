// The layouts found against brute force: every mesh and every rule, one after the other, judged by
// `illegal` and priced whole.
// SPDX-License-Identifier: Apache-2.0
#include "sim/layouts/layout_search.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "plan/layout/megatron_cut.hpp"
#include "plan/layout/model_network.hpp"
#include "plan/model/readers/model_import.hpp"
#include "sim/layouts/mesh_shapes.hpp"
#include "tests/plan/legal_placings.hpp"
#include "tests/plan/written_network.hpp"

namespace weir::layout_search_test {
namespace {

using layout::Axes;
using layout::Network;
using layout::NetworkLayout;

// Nodes of four, a byte within one 1 ns and between them 10, products at 1 TFLOP/s.
Cluster small_cluster() {
  Cluster cluster;
  cluster.device.peak_fp32 = FlopsPerSecond(1e12);
  cluster.device.memory = Bytes(1 << 20);
  cluster.devices_per_node = 4;
  cluster.nodes = 4;
  cluster.intra = {Seconds(1e-6), BytesPerSecond(1e9)};
  cluster.inter = {Seconds(5e-6), BytesPerSecond(1e8)};
  return cluster;
}

// An embedding, an MLP of rows and tokens, and a head: dimensions that one layer has, and some that
// several have.
Network three_layers(std::int64_t batch, std::int64_t hidden, std::int64_t ffn) {
  Network network{"three",
                  {{"batch", "b", batch},
                   {"rows", "r", 8},
                   {"tokens", "s", 8},
                   {"hidden", "h", hidden},
                   {"ffn", "f", ffn},
                   {"vocab", "V", 24}},
                  {}};
  add_layer(network, "embedding", {"weight table[vocab, hidden]", "x[batch, rows, hidden]"},
            {"x = gather(table) over vocab"});
  add_layer(network, "mlp",
            {"x[batch, rows, hidden]", "t[batch, tokens, hidden]", "weight w[hidden, ffn]",
             "u[batch, tokens, ffn]", "a[batch, tokens, ffn]", "weight v[ffn, hidden]",
             "z[batch, tokens, hidden]", "m[batch, rows, hidden]", "y[batch, rows, hidden]"},
            {"t = move(x)", "u = t w", "a = gelu(u)", "z = a v", "m = move(z)", "y = add(x m)"});
  add_layer(network, "head",
            {"x[batch, rows, hidden]", "t[batch, tokens, hidden]", "weight w[hidden, vocab]",
             "logits[batch, tokens, vocab]", "losses[batch, tokens]"},
            {"t = move(x)", "logits = t w", "losses = loss(logits) over vocab"});
  return network;
}

// A state that goes from step to step, between a table and a loss.
Network recurrent(std::int64_t batch, std::int64_t units) {
  Network network{"steps",
                  {{"batch", "b", batch},
                   {"time", "t", 6},
                   {"hidden", "h", units},
                   {"units", "u", units},
                   {"vocab", "V", 24}},
                  {}};
  add_layer(network, "table", {"weight table[vocab, hidden]", "x[batch, time, hidden]"},
            {"x = gather(table) over vocab"});
  add_layer(network, "cell",
            {"x[batch, time, hidden]", "xt[batch, hidden]", "state h[batch, hidden]",
             "weight wx[hidden, units]", "a[batch, units]", "weight wh[hidden, units]",
             "b[batch, units]", "s[batch, units]", "n[batch, units]", "y[batch, time, units]"},
            {"xt = step(x) over time", "a = xt wx", "b = h wh", "s = add(a b)", "n = tanh(s)",
             "h = carry(n) over time", "y = stack(n) over time"});
  add_layer(network, "head",
            {"x[batch, time, units]", "weight w[units, vocab]", "logits[batch, time, vocab]",
             "losses[batch, time]"},
            {"logits = x w", "losses = loss(logits) over vocab"});
  return network;
}

// Two branches of one stem, one of them reads both, and a loss on each.
Network branches(std::int64_t batch, std::int64_t ffn) {
  Network network{"branches",
                  {{"batch", "b", batch},
                   {"hidden", "h", 16},
                   {"ffn", "f", ffn},
                   {"inner", "i", 8},
                   {"vocab", "V", 24}},
                  {}};
  const std::vector<std::string> head = {"x[batch, hidden]", "weight w[hidden, vocab]",
                                         "logits[batch, vocab]", "losses[batch]"};
  const std::vector<std::string> loss = {"logits = x w", "losses = loss(logits) over vocab"};
  add_layer(network, "stem", {"weight table[vocab, hidden]", "x[batch, hidden]"},
            {"x = gather(table) over vocab"});
  add_layer(network, "wide",
            {"x[batch, hidden]", "weight w[hidden, ffn]", "u[batch, ffn]", "a[batch, ffn]",
             "weight v[ffn, hidden]", "z[batch, hidden]"},
            {"u = x w", "a = gelu(u)", "z = a v"});
  add_layer(network, "aside", head, loss);
  add_layer(network, "join",
            {"x[batch, hidden]", "l[batch, hidden]", "weight w[hidden, inner]", "u[batch, inner]",
             "weight v[inner, hidden]", "z[batch, hidden]", "y[batch, hidden]"},
            {"u = x w", "z = u v", "y = add(z l)"}, std::vector<std::string>{"stem", "wide"});
  add_layer(network, "head", head, loss);
  finish_network(network);
  return network;
}

using Point = std::pair<double, std::int64_t>;  // time in ns, bytes

// On a mesh of such sizes, where nothing is split yet.
NetworkLayout on_mesh(const std::vector<std::int64_t>& sizes) {
  NetworkLayout layout;
  for (std::size_t m = 0; m < sizes.size(); ++m)
    layout.mesh.push_back({std::string(1, static_cast<char>('p' + m)), "", sizes[m]});
  return layout;
}

// Calls body() for each division of what the optimizer keeps, with gradients and without.
template <class Body>
void each_division(NetworkLayout layout, const Body& body) {
  const Axes all = (Axes{1} << layout.mesh.size()) - 1;
  for (layout.optimizer = 0; layout.optimizer <= all; ++layout.optimizer) {
    layout.gradients = 0;
    body(layout);
    layout.gradients = layout.optimizer;
    if (layout.gradients != 0) body(layout);
  }
}

// Of all rules for dimensions and for what is kept beside weights.
std::vector<Point> brute_force(const Network& network, const NetworkJob& job,
                               const Cluster& cluster,
                               const std::vector<std::vector<std::int64_t>>& on) {
  std::vector<Point> all;
  for (const auto& sizes : on) {
    each_division(on_mesh(sizes), [&](const NetworkLayout& divided) {
      each_legal_placing(network, divided, [&](const NetworkLayout& one) {
        const NetworkCost cost = network_cost(network, one, job, cluster);
        all.emplace_back(cost.time().count() * 1e9, cost.memory().count());
      });
    });
  }
  std::sort(all.begin(), all.end());
  std::vector<Point> front;
  for (const Point& point : all) {
    if (front.empty() || point.second < front.back().second) front.push_back(point);
  }
  return front;
}

TEST(LayoutSearch, IsBruteForcesFront) {
  const NetworkJob job{.dtype = Dtype::fp32};
  enum Form { layers, steps, forks };
  struct Case {
    std::int64_t batch, hidden, ffn;
    int devices, axes;
    Form form = layers;
  };
  for (const Case& c : {Case{8, 16, 64, 4, 2}, Case{2, 64, 64, 8, 2}, Case{16, 8, 12, 12, 2},
                        Case{1, 32, 256, 8, 3}, Case{3, 6, 10, 1, 2}, Case{8, 16, 0, 4, 2, steps},
                        Case{2, 64, 0, 8, 3, steps}, Case{6, 12, 0, 12, 2, steps},
                        Case{8, 0, 64, 4, 2, forks}, Case{2, 0, 32, 8, 3, forks}}) {
    SCOPED_TRACE(c.form);
    const Network network = c.form == steps   ? recurrent(c.batch, c.hidden)
                            : c.form == forks ? branches(c.batch, c.ffn)
                                              : three_layers(c.batch, c.hidden, c.ffn);
    const auto expected = brute_force(network, job, small_cluster(), meshes(c.devices, c.axes));
    const FoundLayouts found = search_layouts(network, job, small_cluster(), {c.devices, c.axes});
    ASSERT_EQ(found.front.size(), expected.size()) << c.devices;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const FoundLayout& one = found.front[i];
      EXPECT_NEAR(one.cost.time().count() * 1e9, expected[i].first, 1e-6 * expected[i].first);
      EXPECT_EQ(one.cost.memory().count(), expected[i].second);
      // What is said of a layout is what it costs.
      EXPECT_EQ(illegal(network, one.layout), std::nullopt);
      const NetworkCost again = network_cost(network, one.layout, job, small_cluster());
      EXPECT_NEAR(again.time().count(), one.cost.time().count(), 1e-9 * again.time().count());
      EXPECT_EQ(again.memory(), one.cost.memory());
    }
  }
}

// The fastest of all, one by one: the first is the front's first, and the five are brute force's
// five least times. With rules for what is kept beside weights, and without.
void hold_fastest(const Network& network, const LayoutSpace& space) {
  const NetworkJob job{.dtype = Dtype::fp32};
  const auto fastest = fastest_layouts(network, job, small_cluster(), space, 5);
  ASSERT_TRUE(fastest);
  ASSERT_EQ(fastest->size(), 5U);
  std::set<Point> all;
  const auto price = [&](const NetworkLayout& one) {
    const NetworkCost cost = network_cost(network, one, job, small_cluster());
    all.emplace(cost.time().count(), cost.memory().count());
  };
  for (const auto& sizes : meshes(space.devices, space.most_axes)) {
    if (!space.divided_state) each_legal_placing(network, on_mesh(sizes), price);
    if (!space.divided_state) continue;
    each_division(on_mesh(sizes), [&](const NetworkLayout& divided) {
      each_legal_placing(network, divided, price);
    });
  }
  auto expected = all.begin();
  for (const FoundLayout& one : *fastest) {
    EXPECT_EQ(one.cost.time().count(), expected->first);
    ++expected;
  }
  const FoundLayouts found = search_layouts(network, job, small_cluster(), space);
  EXPECT_NEAR(found.front[0].cost.time().count(), fastest->front().cost.time().count(), 1e-12);
}

TEST(LayoutSearch, TheFastestFive) {
  for (const Network& network : {recurrent(8, 16), branches(8, 32)}) {
    hold_fastest(network, {4, 2});
    hold_fastest(network, {4, 2, false});
  }
  const NetworkJob job{.dtype = Dtype::fp32};
  EXPECT_FALSE(fastest_layouts(three_layers(8, 16, 64), job, small_cluster(), {1 << 12, 4}, 5));
}

// Three layers on five devices, which divide the batch of 5 and nothing else (8 rows and tokens, 24
// words, 6 and 11 numbers): of 24 * 6 + 6 * 11 + 11 * 6 + 6 * 24 = 420 weights each device holds
// all, with Adam in fp32 16 bytes of each, the gradient's 4 and Adam's 8 among them. What is
// smallest divides both: of 144 weights' 576 and 1152 bytes a fifth is 116 and 231, of 66 weights'
// 53 and 106.
TEST(LayoutSearch, WhatTheOptimizerKeepsIsDivided) {
  const NetworkJob job{.dtype = Dtype::fp32};
  const Network network = three_layers(5, 6, 11);
  const FoundLayouts whole = search_layouts(network, job, small_cluster(), {5, 1, false});
  const FoundLayouts found = search_layouts(network, job, small_cluster(), {5, 1});
  const FoundLayout &before = whole.front.back(), &after = found.front.back();
  EXPECT_EQ(before.cost.state.count(), 16 * 420);
  EXPECT_EQ(after.cost.state.count(), 4 * 420 + 2 * (116 + 231) + 2 * (53 + 106));
  EXPECT_EQ(after.cost.kept, before.cost.kept);
  EXPECT_EQ(rules_text(network, before.layout), "batch:m0");
  EXPECT_EQ(rules_text(network, after.layout), "batch:m0, optimizer:m0, gradients:m0");
}

// What a mesh's shape is worth: each mesh's own front is brute force's on that mesh alone.
TEST(LayoutSearch, EachMeshHasItsFront) {
  const NetworkJob job{.dtype = Dtype::fp32};
  const Network network = three_layers(4, 16, 32);
  const FoundLayouts found = search_layouts(network, job, small_cluster(), {8, 2});
  const auto all = meshes(8, 2);
  ASSERT_EQ(found.by_mesh.size(), all.size());
  for (std::size_t m = 0; m < all.size(); ++m) {
    const auto expected = brute_force(network, job, small_cluster(), {all[m]});
    ASSERT_EQ(found.by_mesh[m].front.size(), expected.size()) << m;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const NetworkCost& cost = found.by_mesh[m].front[i].cost;
      EXPECT_NEAR(cost.time().count() * 1e9, expected[i].first, 1e-6 * expected[i].first);
      EXPECT_EQ(cost.memory().count(), expected[i].second);
    }
    EXPECT_EQ(found.by_mesh[m].best(Bytes(expected.back().second)), &found.by_mesh[m].front.back());
    EXPECT_EQ(found.by_mesh[m].best(Bytes(expected.back().second - 1)), nullptr);
  }
}

// "batch:d, ffn:m" on four devices: d=4, m=4, and 2 x 2 in both orders, which differ in who is
// whose neighbour. A batch of 2 cannot be on d=4, and that says why.
TEST(MeshShapes, RulesOnEveryMesh) {
  const NetworkJob job{.dtype = Dtype::fp32};
  const Network network = three_layers(2, 16, 64);
  Cluster cluster = small_cluster();
  cluster.devices_per_node = 2;
  const auto shapes = on_every_shape(network, "batch:d, ffn:m", 4, job, cluster);
  std::vector<std::string> names;
  for (const ShapedLayout& one : shapes) names.push_back(one.layout.name);
  ASSERT_EQ(std::set<std::string>(names.begin(), names.end()),
            (std::set<std::string>{"d=4", "m=4", "d=2,m=2", "m=2,d=2"}));
  EXPECT_EQ(names.back(), "d=4");
  EXPECT_EQ(shapes.back().why,
            "layer embedding: x[batch, rows, hidden]: dimension batch of size 2 does not divide by "
            "the 4 of mesh dimension d");
  for (std::size_t i = 0; i + 1 < shapes.size(); ++i) {
    EXPECT_EQ(shapes[i].why, std::nullopt);
    EXPECT_EQ(shapes[i].cost.time(), network_cost(network, shapes[i].layout, job, cluster).time());
    if (i == 0) continue;
    EXPECT_LE(shapes[i - 1].cost.time(), shapes[i].cost.time());
  }
  // 2 x 2: the same blocks and bytes; with m last its all-reduces stay within a node, and those of
  // gradients go between nodes.
  const auto of = [&](const char* name) {
    return std::ranges::find(shapes, name, [](const auto& s) { return s.layout.name; })->cost;
  };
  EXPECT_LT(of("d=2,m=2").exchanges, of("m=2,d=2").exchanges);
  EXPECT_GT(of("d=2,m=2").reductions, of("m=2,d=2").reductions);
  EXPECT_EQ(of("d=2,m=2").memory(), of("m=2,d=2").memory());
  EXPECT_EQ(axes_named("batch:d,heads:m,batch:e"), (std::vector<std::string>{"d", "m", "e"}));
  EXPECT_THROW(static_cast<void>(axes_named("batch")), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(axes_named("")), std::invalid_argument);
}

// A layer is priced once for each way in which its own dimensions can be placed, whatever the other
// layers' do: `examined` counts, over meshes and layers, the different restrictions of all legal
// layouts to a layer's dimensions. What its state is divided over besides is priced where it may
// be worth it: of 7 divisions (of a mesh of two dimensions 2^2, and all but the first with
// gradients too) not all.
TEST(LayoutSearch, PricesALayerOnceForEachPlacingOfItsDimensions) {
  const Network network = three_layers(8, 16, 64);
  std::size_t expected = 0;
  for (const auto& sizes : meshes(4, 2)) {
    std::vector<std::set<std::vector<Axes>>> of_layer(network.layers.size());
    each_legal_placing(network, on_mesh(sizes), [&](const NetworkLayout& one) {
      for (std::size_t l = 0; l < of_layer.size(); ++l) {
        std::set<int> own;
        for (const auto& group : apart(network.layers[l])) own.insert(group.begin(), group.end());
        std::vector<Axes> where;
        for (const int d : own) where.push_back(one.over[static_cast<std::size_t>(d)]);
        of_layer[l].insert(where);
      }
    });
    for (const auto& placings : of_layer) expected += placings.size();
  }
  const auto examined = [&](bool divided_state) {
    const LayoutSpace space{4, 2, divided_state};
    return search_layouts(network, {.dtype = Dtype::fp32}, small_cluster(), space).examined;
  };
  const auto once = static_cast<std::int64_t>(expected);
  EXPECT_EQ(examined(false), once);
  EXPECT_GT(examined(true), once);
  EXPECT_LT(examined(true), 7 * once);
}

// The best is the first of the front that a device can hold; less memory, a slower one or none.
TEST(LayoutSearch, TheBestThatFits) {
  const NetworkJob job{.dtype = Dtype::fp32};
  const FoundLayouts found = search_layouts(three_layers(2, 64, 64), job, small_cluster(), {8, 2});
  ASSERT_GT(found.front.size(), 1U);
  EXPECT_EQ(found.best(found.front[0].cost.memory()), &found.front[0]);
  EXPECT_EQ(found.best(found.front[0].cost.memory() - Bytes(1)), &found.front[1]);
  EXPECT_EQ(found.best(found.front.back().cost.memory() - Bytes(1)), nullptr);
}

TEST(LayoutSearch, Meshes) {
  using Sizes = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(meshes(12, 2), (Sizes{{12}, {2, 6}, {3, 4}, {4, 3}, {6, 2}}));
  EXPECT_EQ(meshes(1, 3), (std::vector<std::vector<std::int64_t>>{{}}));
  EXPECT_EQ(meshes(256, 3).size(), 1U + 7U + 21U);  // of 8 twos, into 1, 2 and 3 parts
}

// A Transformer on 8 devices of one node: the front begins no slower than Megatron's cuts, and all
// of it is legal.
TEST(LayoutSearch, NoCutOfMegatronsIsFasterAndSmaller) {
  const Model model =
      load_model(std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples/models/gpt2-mini.json");
  const Network network =
      layout::model_network(model, {.seq_length = 128, .batch = 8, .vocabulary_of = 8});
  const NetworkJob job{.dtype = Dtype::fp32};
  const FoundLayouts found = search_layouts(network, job, small_cluster(), {8, 2});
  for (const auto& [tp, dp] : {std::pair{1, 8}, {2, 4}}) {
    for (const bool rows : {false, true}) {
      if (rows && tp == 1) continue;
      const NetworkCost cut = network_cost(
          network, layout::megatron_layout(network, {tp, dp, 1, rows}), job, small_cluster());
      const FoundLayout* found_one = found.best(cut.memory());
      ASSERT_NE(found_one, nullptr);
      EXPECT_LE(found_one->cost.time().count(), cut.time().count() * (1 + 1e-12));
    }
  }
}

}  // namespace
}  // namespace weir::layout_search_test
