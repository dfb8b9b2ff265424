// Networks under layouts, a process a processor: the bits, the counts and the bytes of the same
// with a thread a processor, for networks with branches, steps over time and moves.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
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

// Every dimension alone over all processors, and every two together: with one of a product's sums
// and one of its output's rows a move has summands of several processors. Above two processors,
// where there is hardly a core each, two that certainly exchange, of one mesh dimension and of two.
std::vector<NetworkLayout> legal_layouts(const Network& network, int processors) {
  const std::vector<Axes> nowhere(network.dimensions.size(), 0);
  if (processors == 1) return {{"one", {}, nowhere}};
  std::vector<NetworkLayout> all;
  const auto add = [&](NetworkLayout layout) {
    // Every other one shares what the optimizer keeps, and every other of these gradients too.
    if (all.size() % 2 == 1) layout.optimizer = (Axes{1} << layout.mesh.size()) - 1;
    if (all.size() % 4 == 3) layout.gradients = layout.optimizer;
    if (!illegal(network, layout) && !cpu::not_run(network, layout)) all.push_back(layout);
  };
  const auto dimension = [&](std::string_view name) {
    const auto found = std::ranges::find(network.dimensions, name, &layout::Dimension::name);
    return static_cast<std::size_t>(found - network.dimensions.begin());
  };
  if (processors > 2) {
    NetworkLayout line{"", {{"m", "m", processors}}, nowhere};
    line.over[dimension("rows")] = line.over[dimension("ffn")] = 1;
    add(line);
    if (processors % 2 != 0) return all;
    NetworkLayout square{"", {{"a", "a", 2}, {"b", "b", processors / 2}}, nowhere};
    square.over[dimension("batch")] = 1;
    square.over[dimension("rows")] = square.over[dimension("ffn")] = 2;
    add(square);
    return all;
  }
  for (std::size_t d = 0; d < network.dimensions.size(); ++d) {
    for (std::size_t e = d; e < network.dimensions.size(); ++e) {
      NetworkLayout two{"", {{"m", "m", processors}}, nowhere};
      two.over[d] = two.over[e] = 1;
      add(two);
    }
  }
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
    for (const auto& of_a_tensor : node.updated) append(of_a_tensor);
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
// The elements that they have exchanged.
double expect_those_of_threads(const Network& network, const NetworkLayout& layout) {
  const int k = processes().count();
  SCOPED_TRACE(rules_text(network, layout) + " on " + mesh_text(layout));
  cpu::NetworkProcessRun run(network, layout, processes(), 7);
  static_cast<void>(run.step());
  const std::vector<cpu::NetworkCounts> counts = run.counts();
  const std::vector<std::string> hashes = all_gather(processes(), hashes_of(run.nodes()));
  const double held = run.held_bytes();
  EXPECT_EQ(held, cpu::run_bytes(network, layout).numbers);
  EXPECT_EQ(counts.size(), at(k));
  double exchanged = 0;
  for (const cpu::NetworkCounts& one : counts) exchanged += one.exchanged_elements;
  cpu::Workers alone(1);
  cpu::NetworkRun whole(network, {"one", {}, std::vector<Axes>(network.dimensions.size(), 0)},
                        alone, 7);
  static_cast<void>(whole.step());
  const cpu::NetworkDifference difference = run.difference(whole);
  if (processes().index() != 0) return exchanged;
  cpu::Workers workers(k);
  cpu::NetworkRun threads(network, layout, workers, 7);
  static_cast<void>(threads.step());
  EXPECT_EQ(held, threads.held_bytes());
  for (int p = 0; p < k; ++p) {
    EXPECT_EQ(hashes[at(p)], hashes_of(threads.nodes(p))) << "process " << p;
    EXPECT_EQ(counts[at(p)].multiply_adds, threads.counts()[at(p)].multiply_adds);
    EXPECT_EQ(counts[at(p)].exchanged_elements, threads.counts()[at(p)].exchanged_elements);
  }
  const cpu::NetworkDifference theirs = threads.difference(whole);
  EXPECT_EQ(difference.in_order, theirs.in_order);
  EXPECT_EQ(difference.reordered, theirs.reordered);
  EXPECT_EQ(difference.tensors_in_order, theirs.tensors_in_order);
  EXPECT_EQ(difference.tensors_reordered, theirs.tensors_reordered);
  return exchanged;
}

TEST(LayoutProcesses, BitsAndCountsAreThoseOfThreads) {
  const int k = processes().count();
  int runs = 0;
  std::vector<const char*> files{"network.json", "branches.json", "steps.json", "experts.json"};
  if (k > 2) files.resize(1);
  for (const char* file : files) {
    SCOPED_TRACE(file);
    const Network network = network_of(file, k);
    double exchanged = 0;
    for (const NetworkLayout& layout : legal_layouts(network, k)) {
      const double its = expect_those_of_threads(network, layout);
      EXPECT_TRUE(k <= 2 || its > 0);
      exchanged += its;
      ++runs;
    }
    EXPECT_TRUE(k == 1 || exchanged > 0);
  }
  // Of two processes every dimension of each file but where nothing runs it, and pairs.
  EXPECT_GE(runs, k == 1 ? 4 : k == 2 ? 12 : k == 3 ? 1 : 2);
}

}  // namespace
}  // namespace weir::layout_processes_test
