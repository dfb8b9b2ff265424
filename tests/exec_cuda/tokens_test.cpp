// What reads tokens, embedding and cross-entropy, against their definitions in double precision.
// Tolerances: device.hpp.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "exec/cuda/kernels/cross_entropy.hpp"
#include "exec/cuda/kernels/embedding.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::cuda {
namespace {

struct Text {
  std::int64_t batch = 3, length, vocabulary;
  std::vector<std::int32_t> ids;
  explicit Text(std::int64_t v, std::int64_t tokens = 170) : length(tokens), vocabulary(v) {
    std::mt19937 engine(11);
    for (std::int64_t i = 0; i < batch * (length + 1); ++i) {
      ids.push_back(static_cast<std::int32_t>(engine() % static_cast<unsigned>(v)));
    }
  }
  [[nodiscard]] std::int64_t rows() const { return batch * length; }
  [[nodiscard]] std::size_t at(std::int64_t row) const {
    return size(row / length * (length + 1) + row % length);
  }
};

template <class E>
class CudaKernelTokens : public ::testing::Test {};
TYPED_TEST_SUITE(CudaKernelTokens, ElementTypes);

// Packed rows that begin anywhere; padded rows with a tail that no vector holds; fewer logits than
// a block has threads; fp32 rows of 97.7 KB, which shared memory holds, and of 102 KB, which it
// does not.
TYPED_TEST(CudaKernelTokens, CrossEntropyAndItsGradient) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  struct Sizes {
    std::int64_t vocabulary, row, tokens = 170;
  };
  for (const auto& [vocabulary, row, tokens] : {Sizes{29, 29}, Sizes{29, 32}, Sizes{9001, 9008},
                                                Sizes{25001, 25008, 6}, Sizes{26001, 26008, 6}}) {
    const Text text(vocabulary, tokens);
    const auto x = random_held<E>(text.rows() * row, 12);
    const DeviceArray<std::int32_t> ids(text.ids);
    const DeviceArray<E> logits(to_elements<E>(x));
    const DeviceArray<double> row_losses(size(text.rows())), loss(1);
    const float scale = 1.0F / 64;  // a power of two: the same in every type
    cross_entropy<E>({logits.get(), vocabulary, row}, {ids.get(), text.batch, text.length}, scale,
                     row_losses.get(), loss.get(), nullptr);
    double expected_loss = 0;
    std::vector<double> expected(x.begin(), x.end());  // between the rows nothing changes
    for (std::int64_t r = 0; r < text.rows(); ++r) {
      double total = 0;
      const std::int64_t target = text.ids[text.at(r) + 1];
      const auto logit = [&](std::int64_t j) { return double{x[size(r * row + j)]}; };
      for (std::int64_t j = 0; j < vocabulary; ++j) total += std::exp(logit(j));
      for (std::int64_t j = 0; j < vocabulary; ++j) {
        expected[size(r * row + j)] = (std::exp(logit(j)) / total - (j == target ? 1 : 0)) * scale;
      }
      expected_loss += (std::log(total) - logit(target)) * scale;
    }
    // Most are far below 1, and none comes from terms that cancel.
    expect_close(host_floats(logits), expected, kElement<E>, 0);
    EXPECT_NEAR(loss.host()[0], expected_loss,
                1e-5 * expected_loss);  // from the same logits, in fp32 and double
  }
}

// 2700 rows, more than a block looks at between two meetings. Every token comes often, but three:
// one in the first row and near the last; one far from the begin only, and before that where it is
// a target and no row; and one never.
TYPED_TEST(CudaKernelTokens, EmbeddingAndItsGradient) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  Text text(29, 900);
  text.vocabulary += 3;
  text.ids[0] = text.ids[2650] = 29;
  text.ids[900] = text.ids[2400] = text.ids[2700] = 30;
  const StepOnDevice step(1);
  const DropoutMask mask = step.mask(0.2, DropoutSite::embedding);
  for (const std::int64_t h : {300, 64}) {
    const auto token = random_held<E>(text.vocabulary * h, 13),
               position = random_held<E>(text.length * h, 14);
    const auto dy = random_held<E>(text.rows() * h, 15);
    const DeviceArray<std::int32_t> ids(text.ids);
    const DeviceArray<E> token_in(to_elements<E>(token)), position_in(to_elements<E>(position)),
        dy_in(to_elements<E>(dy)), y(dy.size());
    const DeviceFloats dtoken(token), dposition(position);
    const Tokens tokens{ids.get(), text.batch, text.length};
    embed<E>(tokens, token_in.get(), position_in.get(), h, step.on_device(mask), y.get(), nullptr);
    embed_gradient<E>(tokens, dy_in.get(), h, step.on_device(mask), dtoken.get(), dposition.get(),
                      nullptr);  // adds
    std::vector<double> y_expected, dtoken_expected(token.begin(), token.end()),
        dposition_expected(position.begin(), position.end());
    for (std::int64_t row = 0; row < text.rows(); ++row) {
      for (std::int64_t j = 0; j < h; ++j) {
        const std::size_t t = size(text.ids[text.at(row)] * h + j),
                          p = size(row % text.length * h + j);
        const double factor = mask.factor(static_cast<std::uint64_t>(row * h + j));
        y_expected.push_back((double{token[t]} + position[p]) * factor);
        dtoken_expected[t] += dy[size(row * h + j)] * factor;
        dposition_expected[p] += dy[size(row * h + j)] * factor;
      }
    }
    expect_close(host_floats(y), y_expected, kElement<E>);
    expect_close(dtoken.host(), dtoken_expected, kElement<float>);
    expect_close(dposition.host(), dposition_expected, kElement<float>);
  }
}

}  // namespace
}  // namespace weir::cuda
