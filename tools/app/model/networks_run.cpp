// All layouts are built before the first is timed, and their steps are interleaved in a fresh order
// each round.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/model/networks_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "exec/device/cores.hpp"
#include "plan/layout/mesh_factors.hpp"
#include "plan/words/error.hpp"
#include "plan/words/indexed.hpp"
#ifdef WEIR_HAS_CPU_BACKEND
#include "exec/cpu/layout/network_probe.hpp"
#include "exec/cpu/layout/network_process_run.hpp"
#include "exec/cpu/layout/network_routes.hpp"
#include "exec/cpu/layout/network_run.hpp"
#include "tools/app/machine/host.hpp"
#include "tools/app/model/interleaved.hpp"
#include "tools/app/model/run_memory.hpp"
#endif

namespace weir {
namespace {

using layout::MeshDimension;
using layout::NetworkLayout;

#ifdef WEIR_HAS_CPU_BACKEND

// Sums of fp32 in another order; a softmax or a norm behind them makes little of it, a cancellation
// more. A wrong or a missing summand is far above it.
constexpr double kLargestDifference = 1e-2;
constexpr double kMuch = 1.05;  // of two predictions: that they differ
constexpr int kProbeRounds = 31;

// What the exchanges of one step make a processor read: of n numbers among p, 2 n (p-1)/p for an
// all-reduce and half of it for the others.
double derived_elements(const layout::Network& network, const NetworkLayout& layout) {
  double sum = 0;
  for (std::size_t l = 0; l < network.layers.size(); ++l) {
    for (const layout::Exchange& e : layer_share(network, layout, l).exchanges) {
      const auto p = static_cast<double>(members(layout, e.axes));
      const double factor = e.collective == layout::Collective::all_reduce ? 2 : 1;
      sum += factor * e.elements * (p - 1) / p *
             static_cast<double>(e.times * network.layers[l].repeat);
    }
  }
  return sum;
}

double derived_products(const layout::Network& network, const NetworkLayout& layout) {
  double sum = 0;
  for (std::size_t l = 0; l < network.layers.size(); ++l) {
    for (const double pass : layer_share(network, layout, l).multiply_adds)
      sum += pass * static_cast<double>(network.layers[l].repeat);
  }
  return sum;
}

void check(const layout::Network& network, const NetworkRunRow& row, double held) {
  const std::string where =
      fmt::format("layout {}: {}", row.layout.name, rules_text(network, row.layout));
  if (row.in_order != 0)
    throw RunFailed(fmt::format("{}: sums in the same order differ from the unsplit ones by {:.1e}",
                                where, row.in_order));
  if (!(row.reordered <= kLargestDifference))
    throw RunFailed(
        fmt::format("{}: the result differs from the unsplit one by {:.1e}", where, row.reordered));
  const double products = derived_products(network, row.layout);
  if (row.multiply_adds != products)
    throw RunFailed(fmt::format("{}: {} multiply-adds counted, {} derived", where,
                                row.multiply_adds, products));
  const double bytes = cpu::run_bytes(network, row.layout).numbers;
  if (held != bytes)
    throw RunFailed(fmt::format("{}: {} bytes of numbers held, {} derived", where, held, bytes));
  // On several mesh dimensions a move may be two collectives, which are read in one here, or
  // change the mesh dimension of a place, which is priced as if blocks were numbered for it. So may
  // be where visits of experts lie.
  const double apart = std::abs(row.exchanged_elements - row.derived_elements);
  const bool as_priced = row.layout.mesh.size() <= 1 && cpu::routes_as_priced(network, row.layout);
  if (as_priced && apart > 1e-9 * row.derived_elements)
    throw RunFailed(fmt::format("{}: {} elements exchanged, {} derived", where,
                                row.exchanged_elements, row.derived_elements));
}

// The first step's counts are every step's. Run: cpu::NetworkRun or cpu::NetworkProcessRun.
template <class Run>
NetworkRunRow row_of(NetworkRunRow row, const layout::Network& network, const Run& run,
                     const cpu::NetworkRun& whole, const std::vector<cpu::NetworkTimes>& times) {
  row.products = median_of(times, &cpu::NetworkTimes::products);
  row.exchanges = median_of(times, &cpu::NetworkTimes::exchanges);
  row.elementwise = median_of(times, &cpu::NetworkTimes::elementwise);
  row.step = median_of(times, &cpu::NetworkTimes::step);
  std::vector<double> priced;
  for (const cpu::NetworkTimes& one : times)
    priced.push_back((one.products + one.exchanges).count());
  row.spread = spread_of(std::move(priced));
  const std::vector<cpu::NetworkCounts>& all = run.counts();
  row.multiply_adds = all[0].multiply_adds;
  for (const cpu::NetworkCounts& counts : all)
    row.exchanged_elements += counts.exchanged_elements / static_cast<double>(all.size());
  row.derived_elements = derived_elements(network, row.layout);
  const cpu::NetworkDifference difference = run.difference(whole);
  row.in_order = difference.in_order;
  row.reordered = difference.reordered;
  return row;
}

void count_pairs(NetworksRunResult& result) {
  const auto priced = [](const NetworkRunRow& row) {
    return (row.predicted.products + row.predicted.exchanges + row.predicted.reductions).count();
  };
  for (std::size_t a = 0; a < result.rows.size(); ++a) {
    for (std::size_t b = 0; b < result.rows.size(); ++b) {
      if (priced(result.rows[b]) <= kMuch * priced(result.rows[a])) continue;
      ++result.pairs;
      if (result.rows[b].priced() > result.rows[a].priced()) ++result.pairs_right;
    }
  }
}

#endif

}  // namespace

std::vector<NetworkLayout> on_workers(const NetworkLayout& layout, int workers) {
  std::vector<NetworkLayout> all;
  // The first dimension's largest size first.
  const auto factors = layout::ordered_factors(workers, layout.mesh.size());
  for (auto sizes = factors.rbegin(); sizes != factors.rend(); ++sizes) {
    std::vector<MeshDimension> mesh = layout.mesh;
    for (std::size_t m = 0; m < mesh.size(); ++m) mesh[m].size = (*sizes)[m];
    all.push_back(on_mesh(layout, mesh));
  }
  return all;
}

#ifndef WEIR_HAS_CPU_BACKEND
Cluster measured_cores(int) {
  throw MissingComponent("this build has no CPU backend to run layouts on");
}
Cluster measured_cores(Processes&) { return measured_cores(1); }
NetworksRunResult run_networks(const layout::Network&, const std::vector<NetworkLayout>&,
                               const NetworkJob&, const Cluster&, const NetworksRunRequest&) {
  throw MissingComponent("this build has no CPU backend to run layouts on");
}
#else
namespace {

Cluster cores_of(int workers, const cpu::NetworkRates& rates) {
  Cluster cluster;
  cluster.name = "this machine's cores";
  cluster.devices_per_node = workers;
  cluster.device.name = "a core";
  cluster.device.peak_fp32 = rates.products;
  cluster.device.memory = Bytes(host_memory().count() / workers);
  // An all-reduce of nothing is 2 (p - 1) messages of a ring.
  cluster.intra = {rates.exchange_latency / std::max(1, 2 * (workers - 1)),
                   rates.exchange_bandwidth};
  cluster.inter = cluster.intra;
  return cluster;
}

NetworkLayout unsplit(const layout::Network& network) {
  return {"", {}, std::vector<layout::Axes>(network.dimensions.size(), 0)};
}

void require_room(const layout::Network& network, const std::vector<NetworkLayout>& layouts,
                  Processes* processes) {
  std::vector<RunNeed> needs;
  for (const NetworkLayout& layout : layouts) {
    needs.push_back({fmt::format("{} ({})", layout.name, rules_text(network, layout)),
                     cpu::run_bytes(network, layout).all +
                         (processes == nullptr ? 0 : cpu::message_bytes(network, layout))});
  }
  // Each process makes the unsplit computation by itself; all may stand on one host.
  require_memory(needs, cpu::run_bytes(network, unsplit(network)).all *
                            (processes == nullptr ? 1 : processes->count()));
  // What one has allocated would be missing where another still asks what is free.
  if (processes != nullptr) processes->barrier();
}

// make(layout): a run of it. All of them stand side by side, and their steps are interleaved.
template <class Make>
void run_all(const layout::Network& network, const NetworksRunRequest& request, const Make& make,
             NetworksRunResult& result) {
  std::vector<decltype(make(NetworkLayout()))> runs;
  for (const NetworkRunRow& row : result.rows) runs.push_back(make(row.layout));
  std::vector<std::vector<cpu::NetworkTimes> > times(runs.size());
  interleaved(
      runs.size(), {request.rounds, request.seed, request.progress}, [](bool) {},
      [&](std::size_t run, bool counts) {
        const cpu::NetworkTimes step = runs[run]->step();
        if (counts) times[run].push_back(step);
      });
  cpu::Workers one(1);
  cpu::NetworkRun whole(network, unsplit(network), one, request.seed);
  static_cast<void>(whole.step());
  for (std::size_t r = 0; r < runs.size(); ++r) {
    NetworkRunRow& row = result.rows[r];
    row = row_of(std::move(row), network, *runs[r], whole, times[r]);
    check(network, row, runs[r]->held_bytes());
  }
}

}  // namespace

Cluster measured_cores(int workers) {
  cpu::Workers team(workers);
  return cores_of(workers, cpu::network_rates(team, kProbeRounds));
}

Cluster measured_cores(Processes& processes) {
  return cores_of(processes.count(), cpu::network_rates(processes, kProbeRounds));
}

NetworksRunResult run_networks(const layout::Network& network,
                               const std::vector<NetworkLayout>& layouts, const NetworkJob& job,
                               const Cluster& machine, const NetworksRunRequest& request) {
  for (const NetworkLayout& layout : layouts) {
    if (const auto why = cpu::not_run(network, layout))
      throw InputError(request.file, "layers", *why);
  }
  require_room(network, layouts, request.processes);
  NetworksRunResult result{request.workers, request.rounds, request.seed};
  for (const NetworkLayout& layout : layouts)
    result.rows.push_back({layout, network_cost(network, layout, job, machine)});
  if (request.processes == nullptr) {
    cpu::Workers workers(request.workers);
    run_all(
        network, request,
        [&](const NetworkLayout& layout) {
          return std::make_unique<cpu::NetworkRun>(network, layout, workers, request.seed);
        },
        result);
    result.oversubscribed = request.workers > available_cores();
  } else {
    Processes& processes = *request.processes;
    run_all(
        network, request,
        [&](const NetworkLayout& layout) {
          return std::make_unique<cpu::NetworkProcessRun>(network, layout, processes, request.seed);
        },
        result);
    result.processes = processes.description();
    result.oversubscribed = processes.oversubscribed();
  }
  count_pairs(result);
  return result;
}
#endif

}  // namespace weir
