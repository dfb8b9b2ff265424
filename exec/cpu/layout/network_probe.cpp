// A product of three dimensions, and all-reduces of two sizes.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_probe.hpp"

#include <algorithm>
#include <vector>

#include "exec/cpu/layout/core_clock.hpp"
#include "exec/cpu/layout/kernels/network_kernels.hpp"
#include "exec/cpu/layout/network_board.hpp"
#include "exec/cpu/layout/network_process_board.hpp"
#include "exec/cpu/layout/network_process_run.hpp"
#include "plan/words/indexed.hpp"
#include "traces/stats.hpp"

namespace weir::cpu {
namespace {

constexpr std::int64_t kEdge = 128;                 // of the product's dimensions
constexpr std::int64_t kFew = 16, kMany = 1 << 16;  // numbers all-reduced

struct Samples {
  std::vector<double> product, few, many;
};

layout::Network probed() {
  return {"probe", {{"i", "i", kEdge}, {"k", "k", kEdge}, {"j", "j", kEdge}}, {}};
}

layout::NetworkLayout line_of(int processors) {
  layout::NetworkLayout layout{"all", {}, {0, 0, 0}};
  if (processors > 1) layout.mesh.push_back({"n", "n", processors});
  return layout;
}

// One processor's part; `meet` waits for all of them.
template <class Meet>
Samples samples_of(Board& board, const layout::NetworkLayout& layout, int processor, int rounds,
                   const Meet& meet) {
  const layout::Network network = probed();
  const layout::Axes all = layout.mesh.empty() ? 0 : 1;
  const MeshPlace place(layout, processor);
  const BlockShape a(network, layout, {0, 1}), b(network, layout, {1, 2}),
      c(network, layout, {0, 2});
  std::vector<float> left(at(a.elements), 1.0F), right(at(b.elements), 1.0F),
      out(at(c.elements), 0.0F), block(at(kMany), 1.0F);
  const auto timed = [](std::vector<double>& to, const auto& work) {
    const Seconds before = core_time();
    work();
    to.push_back((core_time() - before).count());
  };
  Samples mine;
  for (int round = 0; round < rounds; ++round) {
    meet();
    timed(mine.product, [&] {
      add_product({&a, left.data()}, {&b, right.data()}, {&c, out.data()});
    });
    meet();
    timed(mine.few, [&] { board.all_reduce(place, all, block.data(), kFew, Reduction::sum); });
    meet();
    timed(mine.many, [&] { board.all_reduce(place, all, block.data(), kMany, Reduction::sum); });
  }
  return mine;
}

// Of all processors and rounds together.
NetworkRates rates_of(const std::vector<Samples>& samples) {
  Samples together;
  for (const Samples& one : samples) {
    together.product.insert(together.product.end(), one.product.begin(), one.product.end());
    together.few.insert(together.few.end(), one.few.begin(), one.few.end());
    together.many.insert(together.many.end(), one.many.begin(), one.many.end());
  }
  NetworkRates rates;
  rates.products =
      FlopsPerSecond(2.0 * kEdge * kEdge * kEdge / median(std::move(together.product)));
  if (samples.size() == 1) return rates;
  const double few = median(std::move(together.few)), many = median(std::move(together.many));
  const auto p = static_cast<double>(samples.size());
  rates.exchange_latency = Seconds(few);
  rates.exchange_bandwidth =
      BytesPerSecond(2 * (p - 1) / p * 4.0 * (kMany - kFew) / std::max(1e-9, many - few));
  return rates;
}

}  // namespace

NetworkRates network_rates(Workers& workers, int rounds) {
  const layout::Network network = probed();
  const layout::NetworkLayout layout = line_of(workers.count());
  ThreadBoard board(network, layout, workers);
  std::vector<Samples> samples(at(workers.count()));
  workers.run([&](int worker) {
    samples[at(worker)] = samples_of(board, layout, worker, rounds, [&] { workers.meet(); });
  });
  return rates_of(samples);
}

NetworkRates network_rates(Processes& processes, int rounds) {
  take_core(processes);
  const layout::Network network = probed();
  const layout::NetworkLayout layout = line_of(processes.count());
  ProcessBoard board(network, layout, processes);
  const Samples mine =
      samples_of(board, layout, processes.index(), rounds, [&] { processes.barrier(); });
  std::vector<double> joined = mine.product;
  joined.insert(joined.end(), mine.few.begin(), mine.few.end());
  joined.insert(joined.end(), mine.many.begin(), mine.many.end());
  // Everybody's, so that all have the same rates, to the bit.
  std::vector<Samples> samples;
  for (const std::vector<double>& one : all_numbers(processes, joined)) {
    const std::size_t n = one.size() / 3;
    const auto part = [&](std::size_t p) {
      const auto begin = one.begin() + static_cast<std::ptrdiff_t>(p * n);
      return std::vector(begin, begin + static_cast<std::ptrdiff_t>(n));
    };
    samples.push_back({part(0), part(1), part(2)});
  }
  return rates_of(samples);
}

}  // namespace weir::cpu
