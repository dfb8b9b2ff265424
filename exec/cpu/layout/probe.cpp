// What the clock does not see: memory that has left the caches. Probes find their operands where the probe before left
// them, as a step's einsums mostly find theirs.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/probe.hpp"

#include <algorithm>
#include <chrono>

#include "exec/cpu/layout/elementwise.hpp"
#include "exec/cpu/matmul.hpp"

namespace weir::cpu {
namespace {

using Clock = std::chrono::steady_clock;

Product square(std::int64_t edge) {
  Product product;
  product.m = product.n = product.k = edge;
  product.a_row = product.b_row = product.c_row = edge;
  return product;
}

}  // namespace

struct MeshProbe::Bench {
  Matmul matmul;
  std::vector<float> a = std::vector<float>(kElements, 0.5F);
  std::vector<float> b = std::vector<float>(kElements, -0.25F);
  std::vector<float> c = std::vector<float>(kElements, 0.0F);
  std::vector<float> scratch;
  Seconds product{0}, elementwise{0}, small_reduce{0}, large_reduce{0};
};

MeshProbe::MeshProbe(Workers& workers)
    : workers_(workers), small_(workers.count(), kFew), large_(workers.count(), kElements) {
  static_assert(kEdge * kEdge <= kElements);
  benches_.resize(static_cast<std::size_t>(workers.count()));
  workers.run([&](int worker) {
    auto bench = std::make_unique<Bench>();
    bench->matmul.prepare(square(kEdge));
    bench->scratch.resize(static_cast<std::size_t>(bench->matmul.scratch_bytes()) / 4 + 1);
    bench->matmul.use_scratch(bench->scratch.data());
    benches_[static_cast<std::size_t>(worker)] = std::move(bench);
  });
}

MeshProbe::~MeshProbe() = default;

Bytes MeshProbe::exchanged(std::int64_t elements) const {
  return Bytes(4 * 2 * (workers_.count() - 1) * elements / workers_.count());
}

MeshProbe::Sample MeshProbe::measure() {
  workers_.run([&](int worker) {
    Bench& bench = *benches_[static_cast<std::size_t>(worker)];
    const auto timed = [&](Seconds& to, auto&& work) {
      workers_.meet();
      const auto start = Clock::now();
      work();
      to = Clock::now() - start;
    };
    timed(bench.product,
          [&] { bench.matmul.run(square(kEdge), bench.a.data(), bench.b.data(), nullptr, bench.c.data()); });
    timed(bench.elementwise, [&] {
      relu(kElements, bench.c.data());
      mask(bench.a.data(), kElements, bench.c.data());
    });
    timed(bench.small_reduce, [&] { small_.run(worker, bench.c.data()); });
    timed(bench.large_reduce, [&] { large_.run(worker, bench.c.data()); });
  });
  Sample slowest;
  for (const auto& bench : benches_) {
    slowest.product = std::max(slowest.product, bench->product);
    slowest.elementwise = std::max(slowest.elementwise, bench->elementwise);
    slowest.small_reduce = std::max(slowest.small_reduce, bench->small_reduce);
    slowest.large_reduce = std::max(slowest.large_reduce, bench->large_reduce);
  }
  return slowest;
}

}  // namespace weir::cpu
