// Networks run under all legal layouts of a mesh, held to the unsplit computation and to what is
// derived of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/cpu/layout/network_routes.hpp"
#include "exec/cpu/layout/network_run.hpp"
#include "plan/layout/exchanges.hpp"

namespace weir::held_networks {

using cpu::NetworkDifference;
using cpu::NetworkRun;
using cpu::Workers;
using layout::Axes;
using layout::Collective;
using layout::Network;
using layout::NetworkLayout;

// What a device reads from others, by the collectives' formulas: of n numbers among p, 2 n (p-1)/p
// for an all-reduce and half of it for the others; and its multiply-adds.
struct Derived {
  double multiply_adds = 0, elements = 0;
};
inline Derived derived(const Network& network, const NetworkLayout& layout) {
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
inline bool changes_places(const Network& network, const NetworkLayout& layout) {
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

// All legal layouts of a mesh; calls body with so many of them at most, from all over, and says how
// many there were. A layout is legal where those of its mesh dimensions alone are, and sizes
// divide.
template <class Body>
int each_legal(const Network& network, const std::vector<std::int64_t>& sizes, std::size_t most,
               const Body& body) {
  const std::size_t dimensions = network.dimensions.size();
  std::vector<NetworkLayout> legal{{"", {}, std::vector<Axes>(dimensions, 0)}};
  for (std::size_t m = 0; m < sizes.size(); ++m) {
    const std::string name(1, static_cast<char>('p' + m));
    std::vector<NetworkLayout> more;
    for (std::int64_t code = 0; code < std::int64_t{1} << dimensions; ++code) {
      NetworkLayout one{"", {{name, name, sizes[m]}}, std::vector<Axes>(dimensions, 0)};
      for (std::size_t d = 0; d < dimensions; ++d) one.over[d] = static_cast<Axes>(code >> d & 1);
      if (illegal(network, one)) continue;
      for (NetworkLayout both : legal) {
        both.mesh.push_back({name, name, sizes[m]});
        for (std::size_t d = 0; d < dimensions; ++d) both.over[d] |= one.over[d] << m;
        if (m == 0 || !illegal(network, both)) more.push_back(std::move(both));
      }
    }
    legal = std::move(more);
  }
  const std::size_t every = std::max<std::size_t>(1, legal.size() / most);
  for (std::size_t l = every / 2; l < legal.size(); l += every) body(legal[l]);
  return static_cast<int>(legal.size());
}

// fp32 sums of at most some hundred numbers, a few layers deep: 2^-24 times some hundred, and as
// much again for cancellation between summands of both signs.
inline constexpr double kTolerance = 1e-4;

// Legal layouts on the mesh: numbers, bits, counts.
inline int hold(const Network& network, const std::vector<std::int64_t>& sizes, double tolerance,
                std::size_t most = 1000) {
  Workers one(1);
  const NetworkLayout nowhere{"", {}, std::vector<Axes>(network.dimensions.size(), 0)};
  NetworkRun whole(network, nowhere, one, 3);
  static_cast<void>(whole.step());
  EXPECT_EQ(whole.counts()[0].multiply_adds, derived(network, nowhere).multiply_adds);
  EXPECT_EQ(whole.counts()[0].exchanged_elements, 0);
  std::int64_t processors = 1;
  for (const std::int64_t size : sizes) processors *= size;
  Workers workers(static_cast<int>(processors));
  int sharing = 0;
  return each_legal(network, sizes, most, [&](NetworkLayout layout) {
    // Of every other layout the optimizer's numbers are shared by all processors that have the
    // same.
    const bool shares = std::ranges::count(layout.over, Axes{0}) % 2 == 0;
    layout.optimizer = shares ? (Axes{1} << sizes.size()) - 1 : 0;
    // Of every other one of these the gradients' sums too.
    if (shares && ++sharing % 2 == 0) layout.gradients = layout.optimizer;
    SCOPED_TRACE(network.name + ": " + rules_text(network, layout));
    const auto why = cpu::not_run(network, layout);
    // Pairs of a rotary position that two processors would have a half each of.
    if (why && why->ends_with("has no whole pairs")) return;
    ASSERT_EQ(why, std::nullopt);
    NetworkRun run(network, layout, workers, 3);
    EXPECT_EQ(run.held_bytes(), cpu::run_bytes(network, layout).numbers);
    static_cast<void>(run.step());
    // A second step in the same blocks, of those layouts that are few.
    if (sizes.size() == 1) static_cast<void>(run.step());
    EXPECT_EQ(run.held_bytes(), cpu::run_bytes(network, layout).numbers);
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
    if (!cpu::routes_as_priced(network, layout)) return;
    if (sizes.size() == 1) {
      EXPECT_NEAR(read, formula.elements, 1e-6 * formula.elements);
    }
    if (!changes_places(network, layout)) {
      EXPECT_LE(read, formula.elements * (1 + 1e-9));
    }
  });
}

}  // namespace weir::held_networks
