// Rate of the CPU backend's matrix products on a block's shapes: one core, d = 512, sequence 256,
// micro-batch of 8.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "exec/cpu/kernels/matmul.hpp"

namespace {

struct Free {
  void operator()(float* block) const { std::free(block); }
};
using Block = std::unique_ptr<float, Free>;
Block block(std::int64_t elements) {
  const auto bytes = static_cast<std::size_t>((elements * 4 + 63) / 64 * 64);
  Block made(static_cast<float*>(std::aligned_alloc(64, bytes)));
  for (std::int64_t i = 0; i < elements; ++i) made.get()[i] = 0.01F * static_cast<float>(i % 17);
  return made;
}

// range: rows, in, out; the forward product y = x w' + b.
void forward(benchmark::State& state) {
  const std::int64_t rows = state.range(0), in = state.range(1), out = state.range(2);
  weir::cpu::use_one_thread();
  weir::cpu::Matmul matmul;
  const weir::cpu::Gemm p{.m = rows,
                          .n = out,
                          .k = in,
                          .a_row = in,
                          .b_row = 1,
                          .b_column = in,
                          .c_row = out,
                          .bias = true};
  matmul.prepare(p);
  const Block x = block(rows * in), w = block(out * in), b = block(out), y = block(rows * out);
  const Block scratch = block(matmul.scratch_bytes() / 4 + 16);
  matmul.use_scratch(scratch.get());
  for (auto _ : state) {
    matmul.run(p, x.get(), w.get(), b.get(), y.get());
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(rows * in * out),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(forward)
    ->Args({2048, 512, 1536})
    ->Args({2048, 512, 512})
    ->Args({2048, 512, 2048})
    ->Args({2048, 2048, 512});

// dw += dy' x.
void weight_gradient(benchmark::State& state) {
  const std::int64_t rows = state.range(0), in = state.range(1), out = state.range(2);
  weir::cpu::use_one_thread();
  weir::cpu::Matmul matmul;
  const weir::cpu::Gemm p{.m = out,
                          .n = in,
                          .k = rows,
                          .a_row = 1,
                          .a_column = out,
                          .b_row = in,
                          .c_row = in,
                          .accumulate = true};
  matmul.prepare(p);
  const Block x = block(rows * in), dy = block(rows * out), dw = block(out * in);
  const Block scratch = block(matmul.scratch_bytes() / 4 + 16);
  matmul.use_scratch(scratch.get());
  for (auto _ : state) {
    matmul.run(p, dy.get(), x.get(), nullptr, dw.get());
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(rows * in * out),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(weight_gradient)
    ->Args({2048, 512, 1536})
    ->Args({2048, 512, 2048})
    ->Args({2048, 2048, 512});

}  // namespace

BENCHMARK_MAIN();
