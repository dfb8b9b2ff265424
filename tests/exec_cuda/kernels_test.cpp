// Every kernel against its definition in double precision, on sizes that are no multiple of a block. Rounding of fp32
// is 6e-8; a sum of n terms of size 1 errs by at most n * 6e-8, in trees by far less: 1e-4 covers the sums of this file
// (at most 1000 terms), 1e-5 what has no sum.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels.hpp"

#include <gtest/gtest.h>

#include "tests/exec_cuda/device.hpp"

namespace weir::cuda {
namespace {

constexpr double kElement = 1e-5;
constexpr double kSum = 1e-4;
constexpr std::int64_t kRows = 131, kWidth = 333;

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

struct Normed {
  std::vector<double> mean, inverse;
};
Normed statistics_of(const std::vector<float>& x, double epsilon) {
  Normed n;
  for (std::int64_t r = 0; r < kRows; ++r) {
    double mean = 0, variance = 0;
    for (std::int64_t j = 0; j < kWidth; ++j) mean += x[size(r * kWidth + j)] / static_cast<double>(kWidth);
    for (std::int64_t j = 0; j < kWidth; ++j) variance += std::pow(x[size(r * kWidth + j)] - mean, 2) / kWidth;
    n.mean.push_back(mean);
    n.inverse.push_back(1 / std::sqrt(variance + epsilon));
  }
  return n;
}

TEST(CudaKernels, LayerNormAndItsGradient) {
  WEIR_NEEDS_DEVICE();
  const auto x = random_floats(size(kRows * kWidth), 1), dy = random_floats(size(kRows * kWidth), 2);
  const auto gain = random_floats(size(kWidth), 3), shift = random_floats(size(kWidth), 4);
  const DeviceFloats dx_in(x), dy_in(dy), gain_in(gain), shift_in(shift);
  const DeviceFloats y(x.size()), statistics(size(2 * kRows)), dx(x.size()), dgain(size(kWidth)), dshift(size(kWidth)),
      partials(size(2 * kWidth * partials_of(kRows)));
  layer_norm(dx_in.get(), gain_in.get(), shift_in.get(), {kRows, kWidth}, 1e-5F, y.get(), statistics.get(), nullptr);
  layer_norm_gradient(
      {dx_in.get(), statistics.get(), gain_in.get(), dy_in.get(), dx.get(), dgain.get(), dshift.get(), partials.get()},
      {kRows, kWidth}, Into::overwrite, nullptr);

  const Normed n = statistics_of(x, 1e-5);
  std::vector<double> y_expected, dx_expected, dgain_expected(size(kWidth)), dshift_expected(size(kWidth));
  for (std::int64_t r = 0; r < kRows; ++r) {
    double sum = 0, product = 0;
    const auto normed = [&](std::int64_t j) {
      return (x[size(r * kWidth + j)] - n.mean[size(r)]) * n.inverse[size(r)];
    };
    for (std::int64_t j = 0; j < kWidth; ++j) {
      const double d = double{dy[size(r * kWidth + j)]} * gain[size(j)];
      sum += d / kWidth;
      product += d * normed(j) / kWidth;
      y_expected.push_back(normed(j) * gain[size(j)] + shift[size(j)]);
      dgain_expected[size(j)] += dy[size(r * kWidth + j)] * normed(j);
      dshift_expected[size(j)] += dy[size(r * kWidth + j)];
    }
    for (std::int64_t j = 0; j < kWidth; ++j) {
      const double d = double{dy[size(r * kWidth + j)]} * gain[size(j)];
      dx_expected.push_back(n.inverse[size(r)] * (d - sum - normed(j) * product));
    }
  }
  expect_close(y.host(), y_expected, kSum);
  expect_close(dx.host(), dx_expected, kSum);
  expect_close(dgain.host(), dgain_expected, kSum);
  expect_close(dshift.host(), dshift_expected, kSum);
}

double curve(Curve kind, double x) {
  switch (kind) {
    case Curve::gelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Curve::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Curve::relu:
      return std::max(x, 0.0);
    default:
      return x / (1 + std::exp(-x));
  }
}

// The slope is the reference's central difference; its own error is below 1e-9.
TEST(CudaKernels, ActivationsAndTheirSlopes) {
  WEIR_NEEDS_DEVICE();
  const auto x = random_floats(1000, 5), dy = random_floats(1000, 6);
  for (const Curve kind : {Curve::gelu, Curve::gelu_tanh, Curve::relu, Curve::silu}) {
    const DeviceFloats in(x), y(x.size()), dx(dy);
    activate(kind, in.get(), 1000, y.get(), nullptr);
    activate_gradient(kind, in.get(), 1000, dx.get(), nullptr);
    std::vector<double> value, slope;
    for (std::size_t i = 0; i < x.size(); ++i) {
      value.push_back(curve(kind, x[i]));
      const double step = 1e-5;
      slope.push_back(dy[i] * (curve(kind, x[i] + step) - curve(kind, x[i] - step)) / (2 * step));
    }
    expect_close(y.host(), value, kElement);
    expect_close(dx.host(), slope, kElement);
  }
}

// The mask is exec/philox's on the host, so CPU and CUDA drop the same elements.
TEST(CudaKernels, DropoutDrawsTheHostsMasks) {
  WEIR_NEEDS_DEVICE();
  const DropoutMask mask = dropout_mask(0.3, 7, 2, 5, 1, DropoutSite::mlp_output);
  const auto x = random_floats(1001, 7), added = random_floats(1001, 8);
  const DeviceFloats in(x), y(x.size()), sum(added);
  dropout(mask, 40, in.get(), 1001, y.get(), nullptr);
  dropout_add(mask, in.get(), 1001, sum.get(), nullptr);
  std::vector<double> dropped, added_up;
  for (std::size_t i = 0; i < x.size(); ++i) {
    dropped.push_back(double{x[i]} * mask.factor(40 + i));
    added_up.push_back(double{added[i]} * mask.factor(i) + x[i]);
  }
  expect_close(y.host(), dropped, kElement);
  expect_close(sum.host(), added_up, kElement);
}

TEST(CudaKernels, CausalSoftmaxAndItsGradient) {
  WEIR_NEEDS_DEVICE();
  constexpr std::int64_t matrices = 3, s = 301;
  const auto x = random_floats(size(matrices * s * s), 9), dp = random_floats(size(matrices * s * s), 10);
  const DeviceFloats p(x), ds(dp);
  causal_softmax(0.5F, matrices, s, p.get(), nullptr);
  softmax_gradient(p.get(), 0.5F, matrices, s, ds.get(), nullptr);
  std::vector<double> p_expected, ds_expected;
  for (std::int64_t row = 0; row < matrices * s; ++row) {
    double total = 0, sum = 0;
    const std::int64_t columns = row % s + 1;
    for (std::int64_t j = 0; j < columns; ++j) total += std::exp(0.5 * x[size(row * s + j)]);
    const auto value = [&](std::int64_t j) { return j < columns ? std::exp(0.5 * x[size(row * s + j)]) / total : 0.0; };
    for (std::int64_t j = 0; j < s; ++j) sum += value(j) * dp[size(row * s + j)];
    for (std::int64_t j = 0; j < s; ++j) {
      p_expected.push_back(value(j));
      ds_expected.push_back(0.5 * value(j) * (dp[size(row * s + j)] - sum));
    }
  }
  expect_close(p.host(), p_expected, kSum);
  expect_close(ds.host(), ds_expected, kSum);
}

struct Text {
  std::int64_t batch = 3, length = 17, vocabulary = 29;
  std::vector<std::int32_t> ids;
  Text() {
    std::mt19937 engine(11);
    for (std::int64_t i = 0; i < batch * (length + 1); ++i) {
      ids.push_back(static_cast<std::int32_t>(engine() % static_cast<unsigned>(vocabulary)));
    }
  }
  [[nodiscard]] std::int64_t rows() const { return batch * length; }
  [[nodiscard]] std::size_t at(std::int64_t row) const { return size(row / length * (length + 1) + row % length); }
};

TEST(CudaKernels, CrossEntropyAndItsGradient) {
  WEIR_NEEDS_DEVICE();
  const Text text;
  const auto x = random_floats(size(text.rows() * text.vocabulary), 12);
  const DeviceArray<std::int32_t> ids(text.ids);
  const DeviceFloats logits(x);
  const DeviceArray<double> row_losses(size(text.rows())), loss(1);
  const float scale = 1.0F / 64;  // a power of two: the same in float and double
  cross_entropy(logits.get(), {ids.get(), text.batch, text.length}, text.vocabulary, scale, row_losses.get(),
                loss.get(), nullptr);
  double expected_loss = 0;
  std::vector<double> expected;
  for (std::int64_t row = 0; row < text.rows(); ++row) {
    double total = 0;
    const std::int64_t target = text.ids[text.at(row) + 1];
    const auto logit = [&](std::int64_t j) { return double{x[size(row * text.vocabulary + j)]}; };
    for (std::int64_t j = 0; j < text.vocabulary; ++j) total += std::exp(logit(j));
    for (std::int64_t j = 0; j < text.vocabulary; ++j) {
      expected.push_back((std::exp(logit(j)) / total - (j == target ? 1 : 0)) * scale);
    }
    expected_loss += (std::log(total) - logit(target)) * scale;
  }
  expect_close(logits.host(), expected, kElement);
  EXPECT_NEAR(loss.host()[0], expected_loss, kElement * expected_loss);
}

TEST(CudaKernels, EmbeddingAndItsGradient) {
  WEIR_NEEDS_DEVICE();
  const Text text;
  constexpr std::int64_t h = 300;
  const DropoutMask mask = dropout_mask(0.2, 1, 1, 0, 0, DropoutSite::embedding);
  const auto token = random_floats(size(text.vocabulary * h), 13), position = random_floats(size(text.length * h), 14);
  const auto dy = random_floats(size(text.rows() * h), 15);
  const DeviceArray<std::int32_t> ids(text.ids);
  const DeviceFloats token_in(token), position_in(position), dy_in(dy), y(dy.size()), dtoken(token),
      dposition(position);
  const Tokens tokens{ids.get(), text.batch, text.length};
  embed(tokens, token_in.get(), position_in.get(), h, mask, y.get(), nullptr);
  embed_gradient(tokens, dy_in.get(), h, mask, dtoken.get(), dposition.get(), nullptr);  // adds to what was there
  std::vector<double> y_expected, dtoken_expected(token.begin(), token.end()),
      dposition_expected(position.begin(), position.end());
  for (std::int64_t row = 0; row < text.rows(); ++row) {
    for (std::int64_t j = 0; j < h; ++j) {
      const std::size_t t = size(text.ids[text.at(row)] * h + j), p = size(row % text.length * h + j);
      const double factor = mask.factor(static_cast<std::uint64_t>(row * h + j));
      y_expected.push_back((double{token[t]} + position[p]) * factor);
      dtoken_expected[t] += dy[size(row * h + j)] * factor;
      dposition_expected[p] += dy[size(row * h + j)] * factor;
    }
  }
  expect_close(y.host(), y_expected, kElement);
  expect_close(dtoken.host(), dtoken_expected, kElement);
  expect_close(dposition.host(), dposition_expected, kElement);
}

TEST(CudaKernels, ColumnSums) {
  WEIR_NEEDS_DEVICE();
  const auto x = random_floats(size(kRows * kWidth), 16), before = random_floats(size(kWidth), 17);
  const DeviceFloats in(x), partials(size(kWidth * partials_of(kRows))), y(before);
  column_sum(in.get(), {kRows, kWidth}, Into::add, partials.get(), y.get(), nullptr);
  std::vector<double> expected(before.begin(), before.end());
  for (std::int64_t i = 0; i < kRows * kWidth; ++i) expected[size(i % kWidth)] += x[size(i)];
  expect_close(y.host(), expected, kSum);
}

// Two copies of a gradient; Loshchilov & Hutter's algorithm 2 at step 3.
TEST(CudaKernels, AdamWAndSgd) {
  WEIR_NEEDS_DEVICE();
  const std::size_t n = 777;
  const auto w = random_floats(n, 18), g1 = random_floats(n, 19), g2 = random_floats(n, 20), m = random_floats(n, 21);
  std::vector<float> v = random_floats(n, 22);
  for (float& value : v) value *= value;
  const DeviceFloats first(g1), second(g2), adam_w(w), adam_m(m), adam_v(v), sgd_w(w), sgd_m(m);
  const Gradients gradients{{first.get(), second.get()}, 2};
  const double rate = 1e-2, b1 = 0.9, b2 = 0.95, epsilon = 1e-8, decay = 0.1;
  const double unbias1 = 1 / (1 - b1 * b1 * b1), unbias2 = 1 / (1 - b2 * b2 * b2);
  adamw({static_cast<float>(rate), static_cast<float>(1 - rate * decay), static_cast<float>(b1), static_cast<float>(b2),
         static_cast<float>(epsilon), static_cast<float>(unbias1), static_cast<float>(unbias2)},
        gradients, static_cast<std::int64_t>(n), adam_w.get(), adam_m.get(), adam_v.get(), nullptr);
  sgd({static_cast<float>(rate), static_cast<float>(decay), 0.9F}, gradients, static_cast<std::int64_t>(n), sgd_w.get(),
      sgd_m.get(), nullptr);
  std::vector<double> adam_expected, sgd_expected;
  for (std::size_t i = 0; i < n; ++i) {
    const double g = double{g1[i]} + g2[i], mi = b1 * m[i] + (1 - b1) * g, vi = b2 * v[i] + (1 - b2) * g * g;
    adam_expected.push_back(w[i] * (1 - rate * decay) - rate * mi * unbias1 / (std::sqrt(vi * unbias2) + epsilon));
    sgd_expected.push_back(w[i] - rate * (0.9 * m[i] + g + decay * w[i]));
  }
  expect_close(adam_w.host(), adam_expected, kElement);
  expect_close(sgd_w.host(), sgd_expected, kElement);
}

}  // namespace
}  // namespace weir::cuda
