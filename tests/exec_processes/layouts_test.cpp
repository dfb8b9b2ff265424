// Networks under layouts, a process a processor: the bits, the counts and the bytes of the same
// with a thread a processor, for networks with branches, steps over time and moves.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "exec/cpu/layout/network_numbers.hpp"
#include "exec/cpu/layout/network_process_run.hpp"
#include "plan/layout/read.hpp"
#include "plan/words/indexed.hpp"
#include "tests/exec_processes/started.hpp"

namespace weir::layout_processes_test {
namespace {

using layout::Axes;
using layout::Network;
using layout::NetworkLayout;

Network network_of(const char* file) {
  Network network = *layout::load_layouts(std::filesystem::path(WEIR_SOURCE_DIR) /
                                          "tests/fuzz/seeds/layout" / file)
                         .network;
  // Small, and what is repeated alike is run twice: where processes are more than cores each of
  // their exchanges waits for a core.
  for (layout::NetworkLayer& layer : network.layers)
    layer.repeat = std::min<std::int64_t>(layer.repeat, 2);
  for (layout::Dimension& dimension : network.dimensions)
    dimension.size = std::min<std::int64_t>(dimension.size, dimension.name == "time" ? 4 : 16);
  return network;
}

// On meshes of so many processors every dimension alone, and two of them on two mesh dimensions.
std::vector<NetworkLayout> legal_layouts(const Network& network, int processors) {
  const std::vector<Axes> nowhere(network.dimensions.size(), 0);
  if (processors == 1) return {{"one", {}, nowhere}};
  std::vector<NetworkLayout> all;
  const auto add = [&](NetworkLayout layout) {
    if (!illegal(network, layout) && !cpu::not_run(network, layout)) all.push_back(layout);
  };
  for (std::size_t d = 0; d < network.dimensions.size(); ++d) {
    NetworkLayout one{"", {{"m", "m", processors}}, nowhere};
    one.over[d] = 1;
    add(one);
    if (processors % 2 != 0 || processors == 2) continue;
    NetworkLayout two{"", {{"a", "a", 2}, {"b", "b", processors / 2}}, nowhere};
    two.over[d] = 1;
    two.over[(d + 1) % network.dimensions.size()] = 2;
    add(two);
  }
  constexpr std::size_t kMostOversubscribed = 2;
  if (processors > 2) all.resize(std::min(all.size(), kMostOversubscribed));
  return all;
}

// Values of all steps, and gradients, of one processor.
void expect_same_bits(const std::vector<cpu::NodeBlocks>& mine,
                      const std::vector<cpu::NodeBlocks>& threads) {
  ASSERT_EQ(mine.size(), threads.size());
  for (std::size_t n = 0; n < mine.size(); ++n) {
    EXPECT_EQ(mine[n].values, threads[n].values) << "node " << n;
    ASSERT_EQ(mine[n].gradients.size(), threads[n].gradients.size());
    for (std::size_t t = 0; t < mine[n].gradients.size(); ++t) {
      for (std::size_t s = 0; s < mine[n].gradients[t].size(); ++s) {
        const auto &a = mine[n].gradients[t][s], &b = threads[n].gradients[t][s];
        ASSERT_EQ(a.used, b.used);
        for (std::size_t part = 0; part < a.used; ++part)
          EXPECT_EQ(a.all[part].numbers, b.all[part].numbers) << n << " " << t;
      }
    }
  }
}

TEST(LayoutProcesses, BitsAndCountsAreThoseOfThreads) {
  const int k = processes().count(), self = processes().index();
  int runs = 0;
  for (const char* file : {"network.json", "branches.json", "steps.json"}) {
    const Network network = network_of(file);
    const std::vector<NetworkLayout> layouts = legal_layouts(network, k);
    for (const NetworkLayout& layout : layouts) {
      SCOPED_TRACE(
          fmt::format("{}: {} on {}", file, rules_text(network, layout), mesh_text(layout)));
      cpu::NetworkProcessRun run(network, layout, processes(), 7);
      static_cast<void>(run.step());
      // Each process makes the threads' run by itself, and holds its own processor against it.
      cpu::Workers workers(k);
      cpu::NetworkRun threads(network, layout, workers, 7);
      static_cast<void>(threads.step());
      expect_same_bits(run.nodes(), threads.nodes(self));
      const std::vector<cpu::NetworkCounts> counts = run.counts();
      ASSERT_EQ(counts.size(), at(k));
      for (int p = 0; p < k; ++p) {
        EXPECT_EQ(counts[at(p)].multiply_adds, threads.counts()[at(p)].multiply_adds);
        EXPECT_EQ(counts[at(p)].exchanged_elements, threads.counts()[at(p)].exchanged_elements);
      }
      EXPECT_EQ(run.held_bytes(), threads.held_bytes());
      EXPECT_EQ(run.held_bytes(), cpu::run_bytes(network, layout).numbers);
      ++runs;
    }
  }
  EXPECT_GE(runs, k == 3 ? 0 : 3);
}

}  // namespace
}  // namespace weir::layout_processes_test
