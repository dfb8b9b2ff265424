// A product of three dimensions, and all-reduces of two sizes.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/network_probe.hpp"

#include <algorithm>
#include <vector>

#include "exec/cpu/layout/core_clock.hpp"
#include "exec/cpu/layout/network_board.hpp"
#include "exec/cpu/layout/network_kernels.hpp"
#include "plan/words/indexed.hpp"
#include "traces/stats.hpp"

namespace weir::cpu {
namespace {

constexpr std::int64_t kEdge = 128;                 // of the product's dimensions
constexpr std::int64_t kFew = 16, kMany = 1 << 16;  // numbers all-reduced

struct Samples {
  std::vector<double> product, few, many;
};

}  // namespace

NetworkRates network_rates(Workers& workers, int rounds) {
  const layout::Network network{
      "probe", {{"i", "i", kEdge}, {"k", "k", kEdge}, {"j", "j", kEdge}}, {}};
  layout::NetworkLayout layout{"all", {}, {0, 0, 0}};
  if (workers.count() > 1) layout.mesh.push_back({"n", "n", workers.count()});
  const layout::Axes all = workers.count() > 1 ? 1 : 0;
  Board board(network, layout, workers);
  std::vector<Samples> samples(at(workers.count()));
  workers.run([&](int worker) {
    const MeshPlace place(layout, worker);
    const BlockShape a(network, layout, {0, 1}), b(network, layout, {1, 2}),
        c(network, layout, {0, 2});
    std::vector<float> left(at(a.elements), 1.0F), right(at(b.elements), 1.0F),
        out(at(c.elements), 0.0F), block(at(kMany), 1.0F);
    const auto timed = [](std::vector<double>& to, const auto& work) {
      const Seconds before = core_time();
      work();
      to.push_back((core_time() - before).count());
    };
    Samples& mine = samples[at(worker)];
    for (int round = 0; round < rounds; ++round) {
      workers.meet();
      timed(mine.product, [&] {
        add_product({&a, left.data()}, {&b, right.data()}, {&c, out.data()});
      });
      workers.meet();
      timed(mine.few, [&] { board.all_reduce(place, all, block.data(), kFew); });
      workers.meet();
      timed(mine.many, [&] { board.all_reduce(place, all, block.data(), kMany); });
    }
  });
  // Of all workers and rounds together.
  Samples together;
  for (const Samples& one : samples) {
    together.product.insert(together.product.end(), one.product.begin(), one.product.end());
    together.few.insert(together.few.end(), one.few.begin(), one.few.end());
    together.many.insert(together.many.end(), one.many.begin(), one.many.end());
  }
  NetworkRates rates;
  rates.products =
      FlopsPerSecond(2.0 * kEdge * kEdge * kEdge / median(std::move(together.product)));
  if (workers.count() == 1) return rates;
  const double few = median(std::move(together.few)), many = median(std::move(together.many));
  const double p = workers.count();
  rates.exchange_latency = Seconds(few);
  rates.exchange_bandwidth =
      BytesPerSecond(2 * (p - 1) / p * 4.0 * (kMany - kFew) / std::max(1e-9, many - few));
  return rates;
}

}  // namespace weir::cpu
