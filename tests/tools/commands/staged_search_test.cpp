// K and the layouts inside stages searched together, beside every legal layout of a small network
// at every K.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/layouts/layout_search.hpp"
#include "tests/plan/legal_placings.hpp"
#include "tests/plan/written_network.hpp"
#include "tools/app/model/networks_staged.hpp"

namespace weir::staged_search_test {
namespace {

using layout::Axes;
using layout::Network;
using layout::NetworkLayout;

// Every mesh of so many devices, every set of its dimensions for every dimension.
std::vector<NetworkLayout> all_legal(const Network& network, int devices) {
  std::vector<NetworkLayout> legal;
  for (const std::vector<std::int64_t>& sizes : meshes(devices, 3)) {
    NetworkLayout layout;
    for (const std::int64_t size : sizes) {
      const std::string name = "m" + std::to_string(layout.mesh.size());
      layout.mesh.push_back({name, name, size});
    }
    // What the optimizer keeps is divided over any of them, with gradients or without.
    const Axes all = (Axes{1} << layout.mesh.size()) - 1;
    for (layout.optimizer = 0; layout.optimizer <= all; ++layout.optimizer) {
      for (const bool gradients : {false, true}) {
        if (gradients && layout.optimizer == 0) continue;
        layout.gradients = gradients ? layout.optimizer : 0;
        each_legal_placing(network, layout,
                           [&](const NetworkLayout& one) { legal.push_back(one); });
      }
    }
  }
  return legal;
}

Network chain() {
  Network network{"chain", {{"batch", "b", 16}, {"io", "i", 32}, {"ffn", "f", 64}}, {}};
  add_layer(network, "mlp",
            {"x[batch, io]", "weight w[io, ffn]", "u[batch, ffn]", "a[batch, ffn]",
             "weight v[ffn, io]", "y[batch, io]"},
            {"u = x w", "a = relu(u)", "y = a v"}, {}, 4);
  return network;
}

// What is listed is what its layout costs by itself, none of it is beaten by another, and of this
// network the fastest is the fastest of all. So it must be where K is 1, whose search is exact; and
// equal layers make stages that differ by messages alone.
TEST(StagedSearch, FindsTheFastestOfASmallNetwork) {
  const Network network = chain();
  Cluster cluster;
  cluster.nodes = 1;
  cluster.devices_per_node = 8;
  cluster.device.peak_fp32 = FlopsPerSecond(1e9);
  cluster.device.memory = Bytes(1 << 30);
  cluster.intra = {Seconds(1e-6), BytesPerSecond(1e9)};
  const NetworkJob job{.dtype = Dtype::fp32};
  for (const std::vector<int>& stages :
       {std::vector{1}, std::vector{2}, std::vector{4}, std::vector{1, 2, 4}}) {
    const app::StagesRequest request{.stages = stages, .microbatches = 4, .schedule = "1f1b"};
    const auto front = app::staged_front(network, 8, request, job, cluster);
    ASSERT_FALSE(front.empty());
    double fastest = 1e9;
    for (const int k : stages) {
      app::StagesRequest one = request;
      one.stages = {k};
      const auto legal = all_legal(network, 8 / k);
      ASSERT_GT(legal.size(), 2U) << k;
      const auto rows = staged_rows(network, legal, one, job, cluster);
      for (const app::StagedRow& row : rows)
        fastest = std::min(fastest, row.forecast.step_time.count());
      for (const app::StagedRow& found : front) {
        if (found.stages != k) continue;
        const auto its = std::ranges::find_if(rows, [&](const app::StagedRow& row) {
          return mesh_text(row.layout) == mesh_text(found.layout) &&
                 row.layout.over == found.layout.over &&
                 row.layout.optimizer == found.layout.optimizer &&
                 row.layout.gradients == found.layout.gradients;
        });
        ASSERT_NE(its, rows.end());
        EXPECT_EQ(its->forecast.step_time, found.forecast.step_time);
        EXPECT_EQ(its->forecast.memory(), found.forecast.memory());
      }
    }
    EXPECT_EQ(front.front().forecast.step_time.count(), fastest);
    for (std::size_t r = 1; r < front.size(); ++r) {
      EXPECT_GE(front[r].forecast.step_time, front[r - 1].forecast.step_time);
      EXPECT_LT(front[r].forecast.memory(), front[r - 1].forecast.memory());
    }
  }
}

}  // namespace
}  // namespace weir::staged_search_test
