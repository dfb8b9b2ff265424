// AdamW (Loshchilov & Hutter, algorithm 2) and SGD in double precision, two copies of a gradient;
// the working copy is the master's rounding to the bit; many parameters at once as each alone.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/optimizer.hpp"

#include <gtest/gtest.h>

#include <deque>

#include "tests/exec_cuda/device.hpp"

namespace weir::cuda::optimizer_test {
namespace {

constexpr std::int64_t kCount = 777;  // vectors of four and one more

struct Inputs {
  std::vector<float> w = random_floats(kCount, 18), g1 = random_floats(kCount, 19),
                     g2 = random_floats(kCount, 20), m = random_floats(kCount, 21),
                     v = random_floats(kCount, 22);
  Inputs() {
    for (float& value : v) value *= value;
  }
};

TEST(CudaKernelOptimizer, AdamWAtTheDevicesStep) {
  WEIR_NEEDS_DEVICE();
  const Inputs in;
  const double rate = 1e-2, b1 = 0.9, b2 = 0.95, epsilon = 1e-8, decay = 0.1;
  for (const std::uint32_t step : {0U, 2U, 9999U}) {
    const StepOnDevice numbers(step);
    const DeviceFloats first(in.g1), second(in.g2), w(in.w), m(in.m), v(in.v);
    const DeviceArray<Bf16> working(size(kCount));
    adamw({static_cast<float>(rate), static_cast<float>(1 - rate * decay),
           static_cast<float>(epsilon), b1, b2},
          {{{{first.get(), second.get()}, 2},
            kCount,
            {w.get(), working.get()},
            m.get(),
            v.get(),
            true}},
          numbers.get(), {}, nullptr);
    const double unbias1 = 1 / (1 - std::pow(b1, step + 1)),
                 unbias2 = 1 / (1 - std::pow(b2, step + 1));
    std::vector<double> w_expected, m_expected, v_expected;
    for (std::size_t i = 0; i < size(kCount); ++i) {
      const double g = double{in.g1[i]} + in.g2[i];
      m_expected.push_back(b1 * in.m[i] + (1 - b1) * g);
      v_expected.push_back(b2 * in.v[i] + (1 - b2) * g * g);
      w_expected.push_back(in.w[i] * (1 - rate * decay) -
                           rate * m_expected[i] * unbias1 /
                               (std::sqrt(v_expected[i] * unbias2) + epsilon));
    }
    expect_close(w.host(), w_expected, kElement<float>);
    expect_close(m.host(), m_expected, kElement<float>);
    expect_close(v.host(), v_expected, kElement<float>);
    EXPECT_EQ(host_floats(working), held<Bf16>(w.host()));
  }
}

// As the CPU's test has it: 1 - 0.9999 in fp32 would leave each second moment 1.7e-4 off, 500 steps
// of fp32 round by 3e-5 at most.
TEST(CudaKernelOptimizer, LongMomentsKeepTheirShare) {
  WEIR_NEEDS_DEVICE();
  constexpr std::uint32_t kSteps = 500;
  const double b1 = 0.9, b2 = 0.9999;
  const DeviceFloats w(std::vector<float>(size(kCount), 1.0F)),
      m(std::vector<float>(size(kCount), 0.0F)), v(std::vector<float>(size(kCount), 0.0F));
  std::vector<double> expected(size(kCount), 0.0);
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    const StepOnDevice numbers(step);
    const std::vector<float> g = random_floats(kCount, 40 + step);
    const DeviceFloats gradient(g);
    adamw({1e-3F, 1.0F, 1e-8F, b1, b2},
          {{{{gradient.get()}, 1}, kCount, {w.get(), nullptr}, m.get(), v.get(), true}},
          numbers.get(), {}, nullptr);
    for (std::size_t i = 0; i < size(kCount); ++i)
      expected[i] = b2 * expected[i] + (1 - b2) * g[i] * g[i];
  }
  const std::vector<float> found = v.host();
  for (std::size_t i = 0; i < size(kCount); ++i) EXPECT_NEAR(found[i] / expected[i], 1, 3e-5);
}

TEST(CudaKernelOptimizer, SgdWithMomentumAndWithout) {
  WEIR_NEEDS_DEVICE();
  const Inputs in;
  const double rate = 1e-2, decay = 0.1;
  for (const bool momentum : {false, true}) {
    const DeviceFloats first(in.g1), second(in.g2), w(in.w), m(in.m);
    sgd({static_cast<float>(rate), static_cast<float>(decay), 0.9F},
        {{{{first.get(), second.get()}, 2},
          kCount,
          {w.get(), nullptr},
          momentum ? m.get() : nullptr,
          nullptr,
          true}},
        {}, nullptr);
    std::vector<double> expected;
    for (std::size_t i = 0; i < size(kCount); ++i) {
      const double g = double{in.g1[i]} + in.g2[i] + decay * in.w[i];
      expected.push_back(in.w[i] - rate * (momentum ? 0.9 * in.m[i] + g : g));
    }
    expect_close(w.host(), expected, kElement<float>);
  }
}

// Parameters of a stage as they come: vectors and matrices, some with several copies of their
// gradient, with a working copy, or without decay; more than a launch takes in one way or the
// other.
struct Stage {
  struct One {
    One(std::int64_t elements, int several, unsigned seed)
        : n(elements),
          w(random_floats(size(n), seed)),
          m(random_floats(size(n), seed + 1)),
          v(std::vector<float>(size(n), 0.5F)),
          working(size(n)) {
      for (int copy = 0; copy < several; ++copy)
        copies.emplace_back(random_floats(size(n), seed + 2 + static_cast<unsigned>(copy)));
    }
    std::int64_t n;
    DeviceFloats w, m, v;
    DeviceArray<Bf16> working;
    std::deque<DeviceFloats> copies;
  };
  std::deque<One> all;
  Stage() {
    for (int i = 0; i < kMostUpdated + 20; ++i) {
      const std::int64_t n = i == 3 ? 40'001 : i == 9 ? 16'384 : 1 + i % 13;
      all.emplace_back(n, i % 3 == 0 ? 2 : 1, 100 + 10 * static_cast<unsigned>(i));
    }
  }
  [[nodiscard]] std::vector<Updated> parameters() const {
    std::vector<Updated> updated;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const One& one = all[i];
      Gradients gradients{};
      for (const DeviceFloats& copy : one.copies) gradients.of[gradients.count++] = copy.get();
      updated.push_back({gradients,
                         one.n,
                         {one.w.get(), i % 2 == 0 ? one.working.get() : nullptr},
                         one.m.get(),
                         one.v.get(),
                         i % 5 != 0});
    }
    return updated;
  }
  [[nodiscard]] std::vector<float> numbers() const {
    std::vector<float> all_numbers;
    const auto add = [&](const std::vector<float>& of) {
      all_numbers.insert(all_numbers.end(), of.begin(), of.end());
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
      add(all[i].w.host());
      add(all[i].m.host());
      add(all[i].v.host());
      if (i % 2 == 0) add(host_floats(all[i].working));
    }
    return all_numbers;
  }
};

TEST(CudaKernelOptimizer, AllParametersAtOnceAsEachAlone) {
  WEIR_NEEDS_DEVICE();
  const StepOnDevice numbers(4);
  const Adam adam{1e-2F, 1 - 1e-3F, 1e-8F, 0.9, 0.95};
  const Sgd descent{1e-2F, 0.1F, 0.9F};
  const Stage together, apart;
  adamw(adam, together.parameters(), numbers.get(), {}, nullptr);
  for (const Updated& one : apart.parameters()) adamw(adam, {one}, numbers.get(), {}, nullptr);
  EXPECT_EQ(together.numbers(), apart.numbers());
  sgd(descent, together.parameters(), {}, nullptr);
  for (const Updated& one : apart.parameters()) sgd(descent, {one}, {}, nullptr);
  EXPECT_EQ(together.numbers(), apart.numbers());
}

std::vector<double> squares_of(const std::vector<Updated>& parameters) {
  std::int64_t room = 1;
  for (const Updated& one : parameters) room += square_partials(one.n);
  const DeviceArray<double> partials(size(room)), sums(parameters.size());
  sums_of_squares(parameters, partials.get(), sums.get(), nullptr);
  return sums.host();
}

// In double the sums of up to 40,001 squares of size 1 err by 40,001 * 1e-16 at most. More weights
// than a launch takes, and a slice that has nothing: each as alone, to the bit.
TEST(CudaKernelOptimizer, SquaresAreSummedInDouble) {
  WEIR_NEEDS_DEVICE();
  const Stage stage;
  std::vector<Updated> parameters = stage.parameters();
  parameters[5].n = 0;
  const std::vector<double> found = squares_of(parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    double expected = 0;
    std::vector<std::vector<float>> copies;
    for (const DeviceFloats& copy : stage.all[i].copies) copies.push_back(copy.host());
    for (std::size_t k = 0; k < size(parameters[i].n); ++k) {
      float sum = copies[0][k];
      for (std::size_t copy = 1; copy < copies.size(); ++copy) sum += copies[copy][k];
      expected += static_cast<double>(sum) * static_cast<double>(sum);
    }
    ASSERT_NEAR(found[i], expected, 1e-11 * expected) << i;
    if (i >= 12) continue;
    EXPECT_EQ(found[i], squares_of({parameters[i]}).front()) << i;
  }
}

// Two replicas' parts of 700 weights, more than threads: as the host adds them, and 1 below the
// most. Of a norm that is not finite nothing is made of 1.
TEST(CudaKernelOptimizer, TheFactorIsThatOfTheHost) {
  WEIR_NEEDS_DEVICE();
  constexpr std::int64_t kWeights = 700;
  std::vector<double> squares;
  for (const float value : random_floats(2 * kWeights, 5)) squares.push_back(double{value} * value);
  double sum = 0;
  for (std::size_t weight = 0; weight < kWeights; ++weight)
    sum += squares[weight] + squares[kWeights + weight];
  const double norm = std::sqrt(sum);  // about 37
  const auto factor = [&](double most) {
    const DeviceArray<double> parts(squares);
    const DeviceFloats found(std::size_t{1});
    clip_factor({parts.get(), kWeights, 2}, most, found.get(), nullptr);
    return found.host().front();
  };
  EXPECT_EQ(factor(0.5), static_cast<float>(0.5 / (norm + 1e-6)));
  EXPECT_EQ(factor(1e6), 1.0F);
  squares[3] = std::nan("");
  EXPECT_TRUE(std::isnan(factor(0.5)));
}

// By a factor of the host's and by one of the device's, to the same bits: those of gradients that
// were smaller from the start, whose factor, a power of two, rounds nothing.
TEST(CudaKernelOptimizer, GradientsAreScaledByTheFactor) {
  WEIR_NEEDS_DEVICE();
  const StepOnDevice numbers(4);
  const DeviceFloats quarter(std::vector<float>{0.25F});
  const auto updated = [&](const GradientFactor& factor, float size_of_gradients, bool descends) {
    const Inputs in;
    std::vector<float> g = in.g1;
    for (float& value : g) value *= size_of_gradients;
    const DeviceFloats gradient(g), w(in.w), m(in.m), v(in.v);
    const Updated one{{{gradient.get()}, 1}, kCount, {w.get(), nullptr}, m.get(), v.get(), true};
    if (descends) {
      sgd({1e-2F, 0.1F, 0.9F}, {one}, factor, nullptr);
    } else {
      adamw({1e-2F, 1 - 1e-3F, 1e-8F, 0.9, 0.95}, {one}, numbers.get(), factor, nullptr);
    }
    return w.host();
  };
  for (const bool descends : {false, true}) {
    const std::vector<float> expected = updated({}, 0.25F, descends);
    EXPECT_EQ(updated({0.25F, nullptr}, 1, descends), expected);
    EXPECT_EQ(updated({1, quarter.get()}, 1, descends), expected);
    EXPECT_NE(updated({}, 1, descends), expected);
  }
}

}  // namespace
}  // namespace weir::cuda::optimizer_test
