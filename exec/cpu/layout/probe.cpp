// What the clock does not see: memory that has left the caches. Probes find their operands where
// the probe before left them, as a step's einsums mostly find theirs.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/layout/probe.hpp"

#include <chrono>

#include "exec/cpu/kernels/matmul.hpp"
#include "exec/cpu/layout/core_clock.hpp"
#include "exec/cpu/layout/kernels/elementwise.hpp"

namespace weir::cpu {
namespace {

using Clock = std::chrono::steady_clock;

Gemm square(std::int64_t edge) {
  Gemm gemm;
  gemm.m = gemm.n = gemm.k = edge;
  gemm.a_row = gemm.b_row = gemm.c_row = edge;
  return gemm;
}

}  // namespace

struct MeshProbe::Bench {
  Matmul matmul;
  std::vector<float> a = std::vector<float>(kElements, 0.5F);
  std::vector<float> b = std::vector<float>(kElements, -0.25F);
  std::vector<float> c = std::vector<float>(kElements, 0.0F);
  std::vector<float> scratch;
  Sample sample;
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
      // All begin together: an all-reduce's time must not hold another's delay.
      workers_.meet();
      const Seconds start = core_time();
      work();
      to = core_time() - start;
    };
    timed(bench.sample.product, [&] {
      bench.matmul.run(square(kEdge), bench.a.data(), bench.b.data(), nullptr, bench.c.data());
    });
    timed(bench.sample.elementwise, [&] {
      relu(kElements, bench.c.data());
      mask(bench.a.data(), kElements, bench.c.data());
    });
    timed(bench.sample.small_reduce, [&] {
      const auto start = Clock::now();
      small_.run(worker, bench.c.data());
      bench.sample.small_wall = Clock::now() - start;
    });
    timed(bench.sample.large_reduce, [&] { large_.run(worker, bench.c.data()); });
  });
  Sample mean;
  for (const auto& bench : benches_) {
    for (Seconds Sample::*part : {&Sample::product, &Sample::elementwise, &Sample::small_reduce,
                                  &Sample::large_reduce, &Sample::small_wall}) {
      mean.*part += bench->sample.*part / workers_.count();
    }
  }
  return mean;
}

}  // namespace weir::cpu
