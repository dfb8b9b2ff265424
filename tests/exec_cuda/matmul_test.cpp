// cuBLASLt's products against sums in double precision: fp32 of 200 terms of size 1 errs below 200 * 6e-8; tf32 keeps
// 10 bits of each input, 2^-11 a factor, so a sum of 200 random terms errs by about 2^-10 * sqrt(200) = 1.4e-2, and
// 5e-2 is asked.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/matmul.hpp"

#include <gtest/gtest.h>

#include "tests/exec_cuda/device.hpp"

namespace weir::cuda {
namespace {

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

std::vector<double> expected_of(const Product& p, const std::vector<float>& a, const std::vector<float>& b,
                                const std::vector<float>& bias, const std::vector<float>& before) {
  std::vector<double> c(before.begin(), before.end());
  for (std::int64_t i = 0; i < p.batch; ++i) {
    for (std::int64_t row = 0; row < p.m; ++row) {
      for (std::int64_t column = 0; column < p.n; ++column) {
        double& out = c[size(i * p.c_step + row * p.c_row + column)];
        double sum = (p.bias ? bias[size(column)] : 0.0F) + (p.accumulate ? out : 0.0);
        for (std::int64_t k = 0; k < p.k; ++k) {
          sum += double{a[size(i * p.a_step + row * p.a_row + k * p.a_column)]} *
                 b[size(i * p.b_step + k * p.b_row + column * p.b_column)];
        }
        out = sum;
      }
    }
  }
  return c;
}

TEST(CudaMatmul, EveryLayoutOfThePasses) {
  WEIR_NEEDS_DEVICE();
  constexpr std::int64_t m = 96, n = 40, k = 200;
  const Product products[] = {
      {.m = m, .n = n, .k = k, .a_row = k, .b_row = 1, .b_column = k, .c_row = n, .bias = true},
      {.m = m, .n = n, .k = k, .a_row = k, .b_row = n, .c_row = n},
      {.m = m, .n = n, .k = k, .a_row = 1, .a_column = m, .b_row = n, .c_row = n, .accumulate = true},
      {.m = m,
       .n = n,
       .k = k,
       .a_row = k,
       .b_row = n,
       .c_row = n,
       .batch = 3,
       .a_step = m * k,
       .b_step = k * n,
       .c_step = m * n},
      {.m = 7, .n = 5, .k = 3, .a_row = 3, .b_row = 5, .c_row = 5}};  // rows that are no multiple of 16 bytes
  const DeviceArray<std::byte> scratch(size(Matmul::kScratchBytes));
  for (const bool tf32 : {false, true}) {
    Matmul matmul(tf32);
    for (const Product& p : products) {
      const auto a = random_floats(size(p.batch * p.m * p.k), 31), b = random_floats(size(p.batch * p.k * p.n), 32);
      const auto bias = random_floats(size(p.n), 33), before = random_floats(size(p.batch * p.m * p.n), 34);
      const DeviceFloats a_in(a), b_in(b), bias_in(bias), c(before), again(before);
      matmul.prepare(p);
      for (const DeviceFloats* out : {&c, &again}) {
        matmul.run(p, a_in.get(), b_in.get(), bias_in.get(), out->get(), scratch.get(), nullptr);
      }
      expect_close(c.host(), expected_of(p, a, b, bias, before), tf32 ? 5e-2 : 1e-4);
      EXPECT_EQ(c.host(), again.host());
    }
  }
}

}  // namespace
}  // namespace weir::cuda
