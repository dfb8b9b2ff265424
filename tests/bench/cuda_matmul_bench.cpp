// Rate of the CUDA backend's matrix products on GPT-2 124M's shapes (8 sequences of 1024) in bf16,
// over the rate of one large gemm on the same device. Random data; operands rotate among more
// sets than the second-level cache holds; medians of groups of products timed by events. A plain
// program: where a GPU is, a benchmark library may not be. Exit code 5 where there is no device.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "exec/cuda/blas/linear.hpp"
#include "exec/cuda/blas/matmul.hpp"
#include "exec/cuda/device_info.hpp"
#include "exec/cuda/driver/event_handle.hpp"
#include "exec/cuda/driver/stream_handle.hpp"
#include "plan/model/layer_tensors.hpp"
#include "plan/words/error.hpp"

namespace weir::cuda {
namespace {

constexpr std::int64_t kTokens = 8 * 1024;
constexpr int kWarmUps = 3, kRepetitions = 15;
constexpr double kGroupSeconds = 300e-6;  // long against an event's half microsecond

void release_memory(void* data) noexcept { CUDA_CHECK_NOEXCEPT(cudaFree(data)); }
using Memory = UniqueHandle<void*, release_memory>;

Memory allocate(std::int64_t bytes) {
  void* data = nullptr;
  CUDA_CHECK(cudaMalloc(&data, static_cast<std::size_t>(bytes)));
  return Memory(data);
}

// bf16 of a normal distribution: the upper half of a float.
std::vector<std::uint16_t> random_bf16(std::size_t count) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) {
    const float drawn = normal(engine);
    std::uint32_t bits = 0;
    static_assert(sizeof(bits) == sizeof(drawn));
    std::memcpy(&bits, &drawn, sizeof(bits));
    value = static_cast<std::uint16_t>(bits >> 16);
  }
  return values;
}

// An operand of so many elements in bf16, random: a drawn piece, repeated.
Memory random_operand(std::int64_t elements) {
  static const std::vector<std::uint16_t> piece = random_bf16(std::size_t{1} << 20);
  Memory memory = allocate(elements * 2);
  for (std::int64_t at = 0; at < elements; at += std::ssize(piece)) {
    const auto count =
        static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(piece), elements - at));
    CUDA_CHECK(cudaMemcpy(static_cast<std::uint16_t*>(memory.get()) + at, piece.data(), count * 2,
                          cudaMemcpyHostToDevice));
  }
  return memory;
}

struct Case {
  std::string name;
  Gemm gemm;
  int times = 1;  // in a step's forward and backward of a micro-batch; 0: beside the sum
  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(gemm.m) * static_cast<double>(gemm.n) *
           static_cast<double>(gemm.k);
  }
};

// y = x w', dx = dy w and dw += dy' x of one linear layer, w as [out, in].
void add_linear(std::vector<Case>& cases, const std::string& name, const Linear& linear,
                int times) {
  cases.push_back({name + " forward", linear.forward(Epilogue::none), times});
  cases.push_back({name + " input gradient", linear.input(Epilogue::none), times});
  cases.push_back({name + " weight gradient", linear.weight(true, Epilogue::none), times});
}

// As the executor runs them, padded, and beside them the vocabulary alone.
void add_head(std::vector<Case>& cases, std::int64_t hidden, std::int64_t vocabulary) {
  const Linear padded =
      head_linear({.vocabulary = vocabulary, .hidden = hidden}, kTokens, Element::bf16);
  add_linear(cases, "head", padded, 1);
  Gemm forward = padded.forward(Epilogue::none), input = padded.input(Epilogue::none),
       weight = padded.weight(true, Epilogue::none);
  forward.n = input.k = weight.m = vocabulary;
  cases.insert(cases.end(), {{"head forward, not padded", forward, 0},
                             {"head input gradient, not padded", input, 0},
                             {"head weight gradient, not padded", weight, 0}});
}

std::vector<Case> gpt2_cases() {
  const Linear in{kTokens, 768, 3072}, out{kTokens, 3072, 768};
  std::vector<Case> cases;
  add_linear(cases, "qkv", {kTokens, 768, 2304}, 12);
  add_linear(cases, "attention out", {kTokens, 768, 768}, 12);
  add_linear(cases, "mlp in", in, 12);
  add_linear(cases, "mlp out", out, 12);
  add_head(cases, 768, 50257);
  cases.push_back({"mlp in, with bias", in.forward(Epilogue::bias), 0});
  cases.push_back({"mlp in, with bias and gelu", in.forward(Epilogue::bias_gelu), 0});
  cases.push_back({"mlp out, with gelu gradient", out.input(Epilogue::gelu_gradient), 0});
  cases.push_back({"mlp in, with bias gradient", in.weight(true, Epilogue::row_sums_of_a), 0});
  return cases;
}

class Bench {
 public:
  Bench()
      : stream_(make_stream_handle()),
        scratch_(allocate(Matmul::kScratchBytes)),
        begin_(make_event_handle(cudaEventDefault)),
        end_(make_event_handle(cudaEventDefault)) {
    CUDA_CHECK(cudaDeviceGetAttribute(&cache_, cudaDevAttrL2CacheSize, 0));
  }

  // Seconds of one gemm; 0 where cuBLASLt has none with this epilogue.
  double time(const Gemm& p) {
    matmul_.try_prepare(p);
    if (!matmul_.ready(p)) return 0;
    const std::vector<Set> sets = make_sets(p);
    CUDA_CHECK(cudaDeviceSynchronize());  // filling returns before it is done
    std::size_t next = 0;
    const auto launch = [&](int count) {
      CUDA_CHECK(cudaEventRecord(begin_.get(), stream_.get()));
      for (int i = 0; i < count; ++i) {
        const Set& set = sets[next++ % sets.size()];
        matmul_.run(p, {set.a.get(), set.b.get(), set.c.get(), set.bias.get(), set.aux.get()},
                    scratch_.get(), stream_.get());
      }
      CUDA_CHECK(cudaEventRecord(end_.get(), stream_.get()));
      CUDA_CHECK(cudaStreamSynchronize(stream_.get()));
      float milliseconds = 0;
      CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()));
      return static_cast<double>(milliseconds) * 1e-3 / count;
    };
    double rough = 0;
    for (int i = 0; i < kWarmUps; ++i) rough = launch(4);
    const int group = std::max(4, static_cast<int>(kGroupSeconds / rough) + 1);
    std::vector<double> times;
    for (int i = 0; i < kRepetitions; ++i) times.push_back(launch(group));
    std::nth_element(times.begin(), times.begin() + kRepetitions / 2, times.end());
    return times[kRepetitions / 2];
  }

 private:
  struct Set {
    Memory a, b, c, bias, aux;
  };
  [[nodiscard]] std::vector<Set> make_sets(const Gemm& p) const {
    const std::int64_t result_bytes = p.m * p.c_row * (p.fp32_result ? 4 : 2);
    const std::int64_t a = std::max(p.m * p.a_row, p.k * p.a_column),
                       b = std::max(p.k * p.b_row, p.n * p.b_column);
    const std::int64_t bytes = 2 * (a + b) + result_bytes;
    const std::int64_t count = 2 + 4 * static_cast<std::int64_t>(cache_) / bytes;
    std::vector<Set> sets;
    for (std::int64_t i = 0; i < count; ++i) {
      sets.push_back({random_operand(a), random_operand(b), allocate(result_bytes),
                      random_operand(2 * std::max(p.m, p.n)),
                      p.epilogue == Epilogue::none ? Memory() : random_operand(p.m * p.c_row)});
      CUDA_CHECK(cudaMemset(sets.back().c.get(), 0, static_cast<std::size_t>(result_bytes)));
    }
    return sets;
  }

  Matmul matmul_{Dtype::bf16, 0};
  StreamHandle stream_;
  Memory scratch_;
  EventHandle begin_, end_;
  int cache_ = 0;
};

void run_all() {
  Bench bench;
  constexpr std::int64_t kLarge = 8192;
  const Case large{"large",
                   {.m = kLarge,
                    .n = kLarge,
                    .k = kLarge,
                    .a_row = kLarge,
                    .b_row = 1,
                    .b_column = kLarge,
                    .c_row = kLarge}};
  const double large_rate = large.flops() / bench.time(large.gemm);
  fmt::print("{:<28} {:>9} {:>9} {:>7}\n", "product", "us", "TFLOP/s", "share");
  fmt::print("{:<28} {:>9.1f} {:>9.1f}\n", "8192 x 8192 x 8192", large.flops() / large_rate * 1e6,
             large_rate / 1e12);
  double flops = 0, seconds = 0, worst = 1e9;
  std::string worst_name;
  for (const Case& c : gpt2_cases()) {
    const double time = bench.time(c.gemm), share = c.flops() / time / large_rate;
    if (time == 0) {
      fmt::print("{:<28} no algorithm\n", c.name);
      continue;
    }
    fmt::print("{:<28} {:>9.1f} {:>9.1f} {:>7.2f}\n", c.name, time * 1e6, c.flops() / time / 1e12,
               share);
    if (c.times == 0) continue;
    flops += c.times * c.flops();
    seconds += c.times * time;
    if (share < worst) worst_name = c.name;
    worst = std::min(worst, share);
  }
  fmt::print("together {:.2f} of a large product's {:.0f} TFLOP/s in bf16; least {:.2f}, {}\n",
             flops / seconds / large_rate, large_rate / 1e12, worst, worst_name);
}

}  // namespace
}  // namespace weir::cuda

int main() {
  const weir::CudaFacts facts = weir::cuda_facts();
  if (!facts.device) {
    fmt::print(stderr, "cuda_matmul_bench: {}\n", facts.why);
    return 5;
  }
  try {
    weir::cuda::run_all();
  } catch (const std::exception& failed) {
    fmt::print(stderr, "cuda_matmul_bench: {}\n", failed.what());
    return 6;
  }
  return 0;
}
