// Networks under layouts, a process a processor: the bits, the counts and the bytes of the same
// with a thread a processor, for networks with branches, steps over time and moves.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "exec/cpu/layout/network_numbers.hpp"
#include "exec/cpu/layout/network_process_run.hpp"
#include "exec/processes/all_gather.hpp"
#include "plan/layout/read.hpp"
#include "plan/text/sha256.hpp"
#include "plan/words/indexed.hpp"
#include "tests/exec_processes/started.hpp"

namespace weir::layout_processes_test {
namespace {

using layout::Axes;
using layout::Network;
using layout::NetworkLayout;

Network network_of(const char* file, int processors) {
  Network network = *layout::load_layouts(std::filesystem::path(WEIR_SOURCE_DIR) /
                                          "tests/fuzz/seeds/layout" / file)
                         .network;
  // Small, and what is repeated alike is run twice: where processes are more than cores each of
  // their exchanges waits for a core.
  for (layout::NetworkLayer& layer : network.layers)
    layer.repeat = std::min<std::int64_t>(layer.repeat, 2);
  for (layout::Dimension& dimension : network.dimensions) {
    dimension.size = std::min<std::int64_t>(dimension.size, dimension.name == "time" ? 4 : 16);
    // Three divide it.
    if (processors == 3) dimension.size = (dimension.size + 2) / 3 * 3;
  }
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
  // The last has the most mesh dimensions.
  if (processors > 2 && !all.empty()) all.erase(all.begin(), all.end() - 1);
  return all;
}

// Values of all steps and gradients of one processor, a line a node: small beside the numbers.
std::string hashes_of(const std::vector<cpu::NodeBlocks>& nodes) {
  std::string lines;
  for (const cpu::NodeBlocks& node : nodes) {
    std::string bytes;
    const auto append = [&](const std::vector<float>& numbers) {
      bytes += std::to_string(numbers.size()) + ":";
      const auto raw = std::as_bytes(std::span(numbers));
      bytes.append(reinterpret_cast<const char*>(raw.data()), raw.size());
    };
    for (const auto& of_a_tensor : node.values) {
      for (const auto& numbers : of_a_tensor) append(numbers);
    }
    for (const auto& of_a_tensor : node.gradients) {
      for (const auto& summands : of_a_tensor) {
        for (std::size_t part = 0; part < summands.used; ++part) append(summands.all[part].numbers);
      }
    }
    lines += sha256_hex(bytes) + "\n";
  }
  return lines;
}

// Process 0 alone makes the threads' run, and holds what all tell it of theirs against it.
void expect_those_of_threads(const Network& network, const NetworkLayout& layout) {
  const int k = processes().count();
  SCOPED_TRACE(rules_text(network, layout) + " on " + mesh_text(layout));
  cpu::NetworkProcessRun run(network, layout, processes(), 7);
  static_cast<void>(run.step());
  const std::vector<cpu::NetworkCounts> counts = run.counts();
  const std::vector<std::string> hashes = all_gather(processes(), hashes_of(run.nodes()));
  const double held = run.held_bytes();
  EXPECT_EQ(held, cpu::run_bytes(network, layout).numbers);
  ASSERT_EQ(counts.size(), at(k));
  if (processes().index() != 0) return;
  cpu::Workers workers(k);
  cpu::NetworkRun threads(network, layout, workers, 7);
  static_cast<void>(threads.step());
  EXPECT_EQ(held, threads.held_bytes());
  for (int p = 0; p < k; ++p) {
    EXPECT_EQ(hashes[at(p)], hashes_of(threads.nodes(p))) << "process " << p;
    EXPECT_EQ(counts[at(p)].multiply_adds, threads.counts()[at(p)].multiply_adds);
    EXPECT_EQ(counts[at(p)].exchanged_elements, threads.counts()[at(p)].exchanged_elements);
  }
}

TEST(LayoutProcesses, BitsAndCountsAreThoseOfThreads) {
  int runs = 0;
  std::vector<const char*> files{"network.json", "branches.json", "steps.json"};
  if (processes().count() > 2) files.resize(1);
  for (const char* file : files) {
    SCOPED_TRACE(file);
    const Network network = network_of(file, processes().count());
    for (const NetworkLayout& layout : legal_layouts(network, processes().count())) {
      expect_those_of_threads(network, layout);
      ++runs;
    }
  }
  EXPECT_GE(runs, processes().count() > 2 ? 1 : 3);
}

}  // namespace
}  // namespace weir::layout_processes_test
