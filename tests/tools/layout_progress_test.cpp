// How far a run of layouts is: told after each step of each layout, and done at the end.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "plan/layout/read.hpp"
#include "tools/app/model/networks_run.hpp"

namespace weir::layout_progress_test {
namespace {

// Two layouts, a round that warms up and two that count: six steps.
TEST(LayoutProgress, IsToldAfterEachStep) {
#ifndef WEIR_HAS_CPU_BACKEND
  GTEST_SKIP() << "this build runs no layouts";
#else
  const layout::LayoutFile file = layout::load_layouts(std::filesystem::path(WEIR_SOURCE_DIR) /
                                                       "tests/fuzz/seeds/layout/network.json");
  const layout::Network& network = *file.network;
  std::vector<layout::NetworkLayout> layouts;
  for (const char* dimension : {"batch", "ffn"}) {
    layout::NetworkLayout layout{dimension, {{"m", "m", 2}}, {}};
    for (const layout::Dimension& d : network.dimensions)
      layout.over.push_back(d.name == dimension ? 1 : 0);
    layouts.push_back(std::move(layout));
  }
  std::vector<std::pair<int, int> > told;
  const Cluster machine = measured_cores(2);
  static_cast<void>(run_networks(
      network, layouts, {Dtype::fp32, {}, 1}, machine,
      {.file = "network.json", .workers = 2, .rounds = 2, .progress = [&told](int done, int of) {
         told.emplace_back(done, of);
       }}));
  const std::vector<std::pair<int, int> > expected{{1, 6}, {2, 6}, {3, 6}, {4, 6}, {5, 6}, {6, 6}};
  EXPECT_EQ(told, expected);
#endif
}

}  // namespace
}  // namespace weir::layout_progress_test
