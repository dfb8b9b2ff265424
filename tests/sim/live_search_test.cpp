// The layout of the fewest live bytes: against brute force, and never worse than what
// Mesh-TensorFlow's optimizer could find, by its own measure.
// SPDX-License-Identifier: Apache-2.0
#include "sim/layouts/live_search.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>

#include "plan/layout/read.hpp"
#include "plan/words/indexed.hpp"
#include "tests/plan/written_network.hpp"

namespace weir::live_search_test {
namespace {

using layout::Axes;
using layout::Network;
using layout::NetworkLayout;

NetworkLayout empty_on(const std::vector<std::int64_t>& mesh, const Network& network) {
  NetworkLayout layout;
  for (std::size_t m = 0; m < mesh.size(); ++m) {
    const std::string name = "m" + std::to_string(m);
    layout.mesh.push_back({name, name, mesh[m]});
  }
  layout.over.assign(network.dimensions.size(), 0);
  return layout;
}

// Every set of mesh dimensions for every dimension; `judge` says which may be looked at further.
void each_layout(NetworkLayout& layout, std::size_t from,
                 const std::function<bool(const NetworkLayout&)>& judge,
                 const std::function<void(const NetworkLayout&)>& visit) {
  if (!judge(layout)) return;
  if (from == layout.over.size()) return visit(layout);
  for (Axes axes = 0; axes < Axes{1} << layout.mesh.size(); ++axes) {
    layout.over[from] = axes;
    each_layout(layout, from + 1, judge, visit);
  }
  layout.over[from] = 0;
}

// All that auto_mtf's integer program allows (layout_optimizer.py): a dimension is on one mesh
// dimension at most, which divides it, and no two dimensions of an operation, its inputs' and its
// output's, are on the same one.
bool auto_mtf_allows(const Network& network, const NetworkLayout& layout) {
  for (std::size_t d = 0; d < layout.over.size(); ++d) {
    if ((layout.over[d] & (layout.over[d] - 1)) != 0) return false;
    if (network.dimensions[d].size % members(layout, layout.over[d]) != 0) return false;
  }
  for (const layout::NetworkLayer& layer : network.layers) {
    for (const layout::Operation& operation : layer.operations) {
      Axes taken = 0;
      for (const int d : operation.all) {
        if ((taken & layout.over[at(d)]) != 0) return false;
        taken |= layout.over[at(d)];
      }
    }
  }
  return true;
}

Network example(const char* name) {
  Network network = *layout::load_layouts(std::filesystem::path(WEIR_SOURCE_DIR) /
                                          "tools/examples/layouts" / name)
                         .network;
  // Two of each repetition have every kind of neighbour that more have.
  for (layout::NetworkLayer& layer : network.layers)
    layer.repeat = std::min<std::int64_t>(layer.repeat, 2);
  return network;
}

TEST(LiveSearch, IsBruteForces) {
  Network network{"small",
                  {{"batch", "b", 4},
                   {"rows", "r", 8},
                   {"tokens", "s", 8},
                   {"hidden", "h", 8},
                   {"ffn", "f", 12}},
                  {}};
  add_layer(network, "mlp",
            {"x[batch, rows, hidden]", "t[batch, tokens, hidden]", "weight w[hidden, ffn]",
             "u[batch, tokens, ffn]", "a[batch, tokens, ffn]", "weight v[ffn, hidden]",
             "z[batch, tokens, hidden]", "m[batch, rows, hidden]", "y[batch, rows, hidden]"},
            {"t = move(x)", "u = t w", "a = gelu(u)", "z = a v", "m = move(z)", "y = add(x m)"}, {},
            3);
  const LiveTensors live = live_tensors(network);
  for (const int devices : {1, 2, 4, 6, 8}) {
    std::optional<Bytes> least;
    for (const auto& mesh : meshes(devices, 3)) {
      NetworkLayout layout = empty_on(mesh, network);
      each_layout(
          layout, 0, [&](const NetworkLayout& one) { return !illegal(network, one); },
          [&](const NetworkLayout& one) {
            const Bytes bytes = peak_live_bytes(network, one, live, Dtype::fp32);
            if (!least || bytes < *least) least = bytes;
          });
    }
    const LeastLive found = least_live(network, Dtype::fp32, {devices});
    EXPECT_EQ(found.bytes, *least) << devices;
    EXPECT_FALSE(illegal(network, found.layout));
    EXPECT_EQ(peak_live_bytes(network, found.layout, live, Dtype::fp32), found.bytes);
  }
}

// On each mesh of so many devices, auto_mtf's optimum by exhaustion; ours has all meshes, and
// dimensions over several mesh dimensions.
TEST(LiveSearch, NeverWorseThanMeshTensorFlowsOwn) {
  int smaller = 0;
  for (const char* name : {"transformer-lm.json", "dag.json", "recurrent.json", "experts.json"}) {
    const Network network = example(name);
    const LiveTensors live = live_tensors(network);
    for (const int devices : {4, 8}) {
      const LeastLive ours = least_live(network, Dtype::fp32, {devices});
      for (const auto& mesh : meshes(devices, 2)) {
        std::optional<Bytes> theirs;
        NetworkLayout layout = empty_on(mesh, network);
        each_layout(
            layout, 0, [&](const NetworkLayout& one) { return auto_mtf_allows(network, one); },
            [&](const NetworkLayout& one) {
              // It knows nothing of what an operation needs whole.
              if (illegal(network, one)) return;
              const Bytes bytes = peak_live_bytes(network, one, live, Dtype::fp32);
              if (!theirs || bytes < *theirs) theirs = bytes;
            });
        ASSERT_TRUE(theirs);
        EXPECT_LE(ours.bytes, *theirs) << name << " on " << mesh_text(layout);
        smaller += ours.bytes < *theirs ? 1 : 0;
      }
    }
  }
  EXPECT_GT(smaller, 0);
}

}  // namespace
}  // namespace weir::live_search_test
