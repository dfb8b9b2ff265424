// Exchanges by the collectives' formulas, products by the device's peak.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/network_math.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "costmodel/layers/kernel_rates.hpp"
#include "costmodel/links/collectives.hpp"
#include "costmodel/links/parallel.hpp"
#include "costmodel/memory/training_state.hpp"
#include "plan/words/indexed.hpp"

namespace weir {
namespace {

using layout::Collective;
using layout::Exchange;
using layout::LayerShare;
using layout::Pass;

constexpr std::int64_t kFp32Bytes = 4;

Bytes whole_bytes(double elements, std::int64_t each) {
  return Bytes(static_cast<std::int64_t>(std::llround(elements * static_cast<double>(each))));
}

// W gathers again what F or I gathered already, and a GPU's streams do so beside I's products
// (WeightGathers::hidden).
bool comes_again(const LayerShare& share, const Exchange& exchange) {
  return exchange.pass == Pass::W && std::ranges::any_of(share.exchanges, [&](const Exchange& e) {
           return e.pass != Pass::W && e.tensor == exchange.tensor &&
                  e.gradient == exchange.gradient && e.collective == exchange.collective;
         });
}

}  // namespace

Bytes exchanged_bytes(const Exchange& exchange, Dtype dtype) {
  return whole_bytes(exchange.elements, exchange.fp32 ? kFp32Bytes : bytes_per_element(dtype));
}

Link axes_link(const layout::NetworkLayout& layout, layout::Axes axes, const Cluster& cluster) {
  // Members of the group that one node has: of each of its mesh dimensions those that are no more
  // than a node apart.
  std::int64_t stride = 1, in_node = 1, all = 1;
  // The last mesh dimension is the one whose members are neighbours.
  for (std::size_t m = layout.mesh.size(); m-- > 0;) {
    const std::int64_t size = layout.mesh[m].size;
    if ((axes >> m & 1U) != 0) {
      in_node *= std::clamp<std::int64_t>(cluster.devices_per_node / stride, 1, size);
      all *= size;
    }
    stride *= size;
  }
  const std::int64_t apart = std::max<std::int64_t>(1, cluster.devices_per_node / in_node);
  return group_link(cluster, static_cast<int>(all), static_cast<int>(apart));
}

Seconds exchange_time(const Exchange& exchange, std::int64_t members, Dtype dtype,
                      const Link& link) {
  const Bytes n = exchanged_bytes(exchange, dtype);
  const int p = static_cast<int>(members);
  switch (exchange.collective) {
    case Collective::all_reduce:
      return all_reduce(n, p, link);
    case Collective::all_gather:
      return ring_all_gather(n, p, link);
    case Collective::reduce_scatter:
      return ring_reduce_scatter(n, p, link);
    case Collective::all_to_all:
      return all_to_all(n, p, link);
  }
  return Seconds(0);
}

NetworkCost& NetworkCost::operator+=(const NetworkCost& other) {
  products += other.products;
  exchanges += other.exchanges;
  reductions += other.reductions;
  state += other.state;
  kept += other.kept;
  return *this;
}

std::vector<StepReduction> step_reductions(const LayerShare& share, std::int64_t repeat) {
  std::vector<StepReduction> sums;
  for (const Exchange& exchange : share.exchanges) {
    if (exchange.pass != Pass::step) continue;
    const auto kind = std::pair(exchange.axes, exchange.collective);
    const auto kind_of = [](const StepReduction& s) { return std::pair(s.axes, s.collective); };
    auto sum = std::ranges::lower_bound(sums, kind, {}, kind_of);
    if (sum == sums.end() || kind_of(*sum) != kind)
      sum = sums.insert(sum, {exchange.axes, exchange.collective, 0});
    sum->elements += exchange.elements * static_cast<double>(repeat);
  }
  return sums;
}

PassTimes pass_times(const LayerShare& share, const layout::NetworkLayout& layout,
                     const NetworkJob& job, const Cluster& cluster) {
  const FlopsPerSecond rate = peak_rate(cluster.device, job.dtype);
  PassTimes times;
  for (std::size_t pass = 0; pass < 3; ++pass)
    times.products[pass] = Flops(2 * share.multiply_adds[pass]) / rate;
  for (const Exchange& exchange : share.exchanges) {
    if (exchange.pass == Pass::step || comes_again(share, exchange)) continue;
    times.exchanges[static_cast<std::size_t>(exchange.pass)] +=
        exchange_time(exchange, members(layout, exchange.axes), job.dtype,
                      axes_link(layout, exchange.axes, cluster)) *
        static_cast<double>(exchange.times);
  }
  return times;
}

NetworkCost layer_cost(const LayerShare& share, std::int64_t repeat,
                       const layout::NetworkLayout& layout, const NetworkJob& job,
                       const Cluster& cluster) {
  const auto repeats = static_cast<double>(repeat), times = repeats * job.micro_batches;
  NetworkCost cost;
  const PassTimes passes = pass_times(share, layout, job, cluster);
  for (std::size_t pass = 0; pass < 3; ++pass) {
    cost.products += passes.products[pass] * times;
    cost.exchanges += passes.exchanges[pass] * times;
  }
  for (const StepReduction& sum : step_reductions(share, repeat)) {
    // Gradients are summed in fp32, new weights gathered in the number format.
    const bool fp32 = sum.collective != Collective::all_gather;
    const Exchange all{sum.collective, Pass::step, sum.axes, sum.elements, fp32};
    cost.reductions += exchange_time(all, members(layout, sum.axes), job.dtype,
                                     axes_link(layout, sum.axes, cluster));
  }
  double numbers = 0, statistics = 0;
  for (const layout::Kept& kept : share.kept)
    (kept.statistics ? statistics : numbers) += kept.elements * kept.copies(repeat);
  cost.kept =
      whole_bytes(numbers, bytes_per_element(job.dtype)) + whole_bytes(statistics, kFp32Bytes);
  const int zero = layout.gradients != 0 ? 2 : layout.optimizer != 0 ? 1 : 0;
  for (const layout::HeldWeights& held : share.held) {
    const auto weights = static_cast<std::int64_t>(std::llround(held.elements * repeats));
    const auto sharers = static_cast<int>(members(layout, held.sharers));
    cost.state += zero_share(weights, state_bytes(job.optimizer, job.dtype), zero, sharers).total();
  }
  return cost;
}

NetworkCost network_cost(const layout::Network& network, const layout::NetworkLayout& layout,
                         const NetworkJob& job, const Cluster& cluster) {
  NetworkCost all;
  for (std::size_t l = 0; l < network.layers.size(); ++l)
    all +=
        layer_cost(layer_share(network, layout, l), network.layers[l].repeat, layout, job, cluster);
  return all;
}

}  // namespace weir
