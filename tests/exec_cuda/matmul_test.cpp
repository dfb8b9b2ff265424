// cuBLASLt's gemms against sums in double precision. fp32: 200 terms of size 1 err below 200 *
// 6e-8. tf32 keeps 10 bits of each input, 2^-11 a factor, so a sum of 200 random terms errs by
// about 2^-10 * sqrt(200) = 1.4e-2, and 5e-2 is asked. bf16: the inputs are what the device holds,
// sums are fp32, and the result is rounded by 2^-9 of it.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/blas/matmul.hpp"

#include <gtest/gtest.h>

#include "exec/cuda/blas/linear.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::cuda::matmul_test {
namespace {

constexpr std::int64_t m = 96, n = 40, k = 200;

double gemm_at(const Gemm& p, const std::vector<float>& a, const std::vector<float>& b,
               std::int64_t i, std::int64_t row, std::int64_t column) {
  double sum = 0;
  for (std::int64_t t = 0; t < p.k; ++t) {
    sum += double{a[size(i * p.a_step + row * p.a_row + t * p.a_column)]} *
           b[size(i * p.b_step + t * p.b_row + column * p.b_column)];
  }
  return sum;
}

std::vector<double> expected_of(const Gemm& p, const std::vector<float>& a,
                                const std::vector<float>& b, const std::vector<float>& bias,
                                const std::vector<float>& before) {
  std::vector<double> c(before.begin(), before.end());
  for (std::int64_t i = 0; i < p.batch; ++i) {
    for (std::int64_t row = 0; row < p.m; ++row) {
      for (std::int64_t column = 0; column < p.n; ++column) {
        double& out = c[size(i * p.c_step + row * p.c_row + column)];
        out = gemm_at(p, a, b, i, row, column) +
              (p.epilogue == Epilogue::bias ? bias[size(column)] : 0.0F) +
              (p.accumulate ? out : 0.0);
      }
    }
  }
  return c;
}

std::vector<Gemm> layouts() {
  Gemm batched{.m = m, .n = n, .k = k, .a_row = k, .b_row = n, .c_row = n, .batch = 3};
  batched.a_step = m * k;
  batched.b_step = k * n;
  batched.c_step = m * n;
  Gemm padded{.m = m,
              .n = 37,
              .k = k,
              .a_row = k,
              .b_row = 40,
              .c_row = 40};  // rows longer than what is in them
  return {
      Linear{m, k, n}.forward(Epilogue::bias),
      Linear{m, n, k}.input(Epilogue::none),
      Linear{k, n, m}.weight(true, Epilogue::none),
      batched,
      padded,
      {.m = 7, .n = 5, .k = 3, .a_row = 3, .b_row = 5, .c_row = 5}};  // rows that begin anywhere
}

// E: the operands' type; C: the result's. floor: the least that errors are relative
// to.
template <class E, class C>
void check_layout(Matmul& matmul, const Gemm& p, double tolerance, double floor = 1) {
  const DeviceArray<std::byte> scratch(size(Matmul::kScratchBytes));
  const auto a = random_held<E>(p.batch * 200 * 200, 31),
             b = random_held<E>(p.batch * 200 * 200, 32);
  const auto bias = random_held<E>(p.n, 33), before = random_held<C>(p.batch * p.m * p.c_row, 34);
  const DeviceArray<E> a_in(to_elements<E>(a)), b_in(to_elements<E>(b)),
      bias_in(to_elements<E>(bias));
  const DeviceArray<C> c(to_elements<C>(before)), again(to_elements<C>(before));
  matmul.prepare(p);
  for (const DeviceArray<C>* out : {&c, &again}) {
    matmul.run(p, {a_in.get(), b_in.get(), out->get(), bias_in.get()}, scratch.get(), nullptr);
  }
  expect_close(host_floats(c), expected_of(p, a, b, bias, before), tolerance, floor);
  EXPECT_EQ(host_floats(c), host_floats(again));
}

TEST(CudaMatmul, EveryLayoutOfThePasses) {
  WEIR_NEEDS_DEVICE();
  for (const Dtype dtype : {Dtype::fp32, Dtype::tf32}) {
    Matmul matmul(dtype, 0);
    for (const Gemm& p : layouts())
      check_layout<float, float>(matmul, p, dtype == Dtype::tf32 ? 5e-2 : 1e-4);
  }
}

// Whole sums and cut ones: either way the same bits twice. Where a bf16 result is added to,
// cuBLASLt 13.1 on an H100 rounds the product before it adds: 19.293 - 0.84375 is 19.25 - 0.84375,
// and so 18.375, where the sum's nearest is 18.5. That is 2^-9 of the sum and 2^-9 of the product,
// which is larger by an addend of up to 4.5: below 8e-3 of the sum, of 4 at least. The executor
// adds to weights' gradients in fp32, and in bf16 to residuals alone (AddsToAnotherMatrix).
TEST(CudaMatmul, EveryLayoutInBf16) {
  WEIR_NEEDS_BF16();
  for (const SumOverK sum : {SumOverK::whole, SumOverK::cut}) {
    Matmul matmul(Dtype::bf16, 0, sum);
    for (Gemm p : layouts()) {
      p.fp32_result = false;
      if (p.accumulate) {
        check_layout<Bf16, Bf16>(matmul, p, 8e-3, 4);
      } else {
        check_layout<Bf16, Bf16>(matmul, p, 4e-3);
      }
      p.epilogue = Epilogue::none;
      p.fp32_result = true;
      check_layout<Bf16, float>(matmul, p, 1e-4);
    }
  }
}

// A long sum to a small result, which split-K is for: 1e-4 covers 4096 terms of size 1 added in
// trees of some kind.
TEST(CudaMatmul, LongSumsMayBeCut) {
  WEIR_NEEDS_BF16();
  Matmul matmul(Dtype::bf16, 0, SumOverK::cut);
  const Linear linear{4096, 64, 64};
  const Gemm p = linear.weight(true, Epilogue::none);
  matmul.prepare(p);
  const auto dy = random_held<Bf16>(4096 * 64, 71), x = random_held<Bf16>(4096 * 64, 72);
  const auto before = random_floats(64 * 64, 73);
  const DeviceArray<Bf16> dy_in(to_elements<Bf16>(dy)), x_in(to_elements<Bf16>(x));
  const DeviceArray<std::byte> scratch(size(Matmul::kScratchBytes));
  const DeviceFloats dw(before), again(before);
  for (const DeviceFloats* out : {&dw, &again}) {
    matmul.run(p, {dy_in.get(), x_in.get(), out->get()}, scratch.get(), nullptr);
  }
  expect_close(dw.host(), expected_of(p, dy, x, {}, before), 1e-4, std::sqrt(4096.0));
  EXPECT_EQ(dw.host(), again.host());
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// u = x w' + b and g = gelu(u); then du = (dy w) * gelu'(u). The sums have 200 terms of a tenth, so
// that GELU bends. The library may take its tanh from hardware, good to 2^-11: less than the
// rounding.
TEST(CudaMatmul, GeluAndItsGradient) {
  WEIR_NEEDS_BF16();
  Matmul matmul(Dtype::bf16, 0);
  const Linear linear{m, k, n};
  const Gemm forward = linear.forward(Epilogue::bias_gelu);
  const Gemm backward =
      Linear{m, n, k}.input(Epilogue::gelu_gradient);  // dy[m, k] w[k, n] to a width of n
  for (const Gemm& p : {forward, backward}) {
    matmul.try_prepare(p);
    if (!matmul.ready(p))
      GTEST_SKIP() << "this cuBLASLt has no " << to_string(p.epilogue) << " here: ours follows";
  }
  auto x = random_held<Bf16>(m * k, 41), w = random_held<Bf16>(n * k, 42),
       bias = random_held<Bf16>(n, 43);
  for (float& value : w) value = static_cast<float>(static_cast<Bf16>(value / 10));
  const DeviceArray<Bf16> x_in(to_elements<Bf16>(x)), w_in(to_elements<Bf16>(w)),
      bias_in(to_elements<Bf16>(bias));
  const DeviceArray<Bf16> u(size(m * n)), g(size(m * n)), du(size(m * n));
  const DeviceArray<std::byte> scratch(size(Matmul::kScratchBytes));
  matmul.run(forward, {x_in.get(), w_in.get(), g.get(), bias_in.get(), u.get()}, scratch.get(),
             nullptr);
  matmul.run(backward, {x_in.get(), w_in.get(), du.get(), nullptr, u.get()}, scratch.get(),
             nullptr);
  const std::vector<float> u_found = host_floats(u);
  std::vector<double> u_expected, g_expected, du_expected;
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t column = 0; column < n; ++column) {
      const std::size_t at = size(row * n + column);
      u_expected.push_back(gemm_at(forward, x, w, 0, row, column) + bias[size(column)]);
      g_expected.push_back(gelu(u_expected.back()));
      const double slope = (gelu(u_found[at] + 1e-5) - gelu(u_found[at] - 1e-5)) / 2e-5;
      du_expected.push_back(gemm_at(backward, x, w, 0, row, column) * slope);
    }
  }
  expect_close(u_found, u_expected, 4e-3);
  expect_close(host_floats(g), g_expected, 4e-3);
  expect_close(host_floats(du), du_expected, 8e-3);
}

// dw (+)= dy' x and db = dy summed over its rows, overwritten although dw accumulates; both fp32,
// and the same twice.
TEST(CudaMatmul, BiasGradientBesideTheWeights) {
  WEIR_NEEDS_BF16();
  Matmul matmul(Dtype::bf16, 0);
  const Linear linear{k, m, n};
  const Gemm p = linear.weight(true, Epilogue::row_sums_of_a);
  matmul.try_prepare(p);
  if (!matmul.ready(p))
    GTEST_SKIP() << "this cuBLASLt has no " << to_string(p.epilogue) << " here: ours follows";
  const auto dy = random_held<Bf16>(k * n, 51), x = random_held<Bf16>(k * m, 52);
  const auto before = random_floats(size(n * m), 53);
  const DeviceArray<Bf16> dy_in(to_elements<Bf16>(dy)), x_in(to_elements<Bf16>(x));
  const DeviceFloats dw(before), again(before), db(size(n)), db_again(size(n));
  const DeviceArray<std::byte> scratch(size(Matmul::kScratchBytes));
  matmul.run(p, {dy_in.get(), x_in.get(), dw.get(), db.get()}, scratch.get(), nullptr);
  matmul.run(p, {dy_in.get(), x_in.get(), again.get(), db_again.get()}, scratch.get(), nullptr);
  std::vector<double> db_expected(size(n));
  for (std::int64_t i = 0; i < k * n; ++i) db_expected[size(i % n)] += dy[size(i)];
  expect_close(dw.host(), expected_of(p, dy, x, {}, before), 1e-4);
  expect_close(db.host(), db_expected, 1e-4);
  EXPECT_EQ(dw.host(), again.host());
  EXPECT_EQ(db.host(), db_again.host());
}

// What was chosen for 16 multiprocessors and is spread over all has the same bits: K is no part of
// the arithmetic. 1024 x 1024 numbers are 64 tiles or more, so that 16 and all share them out
// differently.
TEST(CudaMatmul, BitsAreTheSameOnMoreMultiprocessors) {
  WEIR_NEEDS_BF16();
  constexpr std::int64_t kSize = 1024;
  constexpr int kFew = 16;
  const int multiprocessors = cuda_facts().device->multiprocessors;
  if (multiprocessors <= kFew) GTEST_SKIP() << "no more than 16 multiprocessors";
  Matmul few(Dtype::bf16, kFew), all(Dtype::bf16, kFew, SumOverK::whole, multiprocessors);
  const Linear linear{kSize, kSize, kSize};
  const DeviceArray<Bf16> a(to_elements<Bf16>(random_held<Bf16>(kSize * kSize, 61))),
      b(to_elements<Bf16>(random_held<Bf16>(kSize * kSize, 62)));
  const DeviceArray<std::byte> scratch(size(Matmul::kScratchBytes));
  for (Gemm p : {linear.input(Epilogue::none), linear.weight(false, Epilogue::none)}) {
    const DeviceFloats of_few(size(kSize * kSize)), of_all(size(kSize * kSize));
    p.fp32_result = true;
    few.prepare(p);
    all.prepare(p);
    few.run(p, {a.get(), b.get(), of_few.get()}, scratch.get(), nullptr);
    all.run(p, {a.get(), b.get(), of_all.get()}, scratch.get(), nullptr);
    EXPECT_EQ(of_few.host(), of_all.host());
  }
}

// y = before + x w' + b in one gemm, `before` a matrix of its own that stays as it is; rounded
// once.
TEST(CudaMatmul, AddsToAnotherMatrix) {
  WEIR_NEEDS_BF16();
  Matmul matmul(Dtype::bf16, 0);
  const Gemm p = Linear{m, k, n}.forward_onto();
  matmul.prepare(p);
  const auto x = random_held<Bf16>(m * k, 61), w = random_held<Bf16>(n * k, 62),
             bias = random_held<Bf16>(n, 63);
  const auto before = random_held<Bf16>(m * n, 64);
  const DeviceArray<Bf16> x_in(to_elements<Bf16>(x)), w_in(to_elements<Bf16>(w)),
      bias_in(to_elements<Bf16>(bias)), before_in(to_elements<Bf16>(before)), y(size(m * n));
  const DeviceArray<std::byte> scratch(size(Matmul::kScratchBytes));
  matmul.run(p, {x_in.get(), w_in.get(), y.get(), bias_in.get(), nullptr, before_in.get()},
             scratch.get(), nullptr);
  expect_close(host_floats(y), expected_of(p, x, w, bias, before), 4e-3);
  EXPECT_EQ(host_floats(before_in), before);
}

// What a benchmark prints, one line a prepared gemm; and the choice is the same when it is made
// again.
TEST(CudaMatmul, ChoicesAreMadeOnceAndRepeat) {
  WEIR_NEEDS_DEVICE();
  Matmul first(Dtype::tf32, 16), second(Dtype::tf32, 16);
  for (Matmul* matmul : {&first, &second}) {
    for (const Gemm& p : layouts()) matmul->prepare(p);
    matmul->prepare(layouts().front());
  }
  const std::vector<GemmChoice> a = first.choices(), b = second.choices();
  ASSERT_EQ(a.size(), layouts().size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].gemm, b[i].gemm);
    EXPECT_EQ(a[i].algorithm, b[i].algorithm);
    EXPECT_EQ(a[i].tile, b[i].tile);
    EXPECT_EQ(a[i].stages, b[i].stages);
    EXPECT_LE(a[i].scratch_bytes, Matmul::kScratchBytes);
  }
}

}  // namespace
}  // namespace weir::cuda::matmul_test
