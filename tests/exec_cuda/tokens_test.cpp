// What reads tokens, embedding and cross-entropy, against their definitions in double precision.
// Tolerances: device.hpp.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "exec/cuda/kernels/cross_entropy.hpp"
#include "exec/cuda/kernels/embedding.hpp"
#include "exec/cuda/kernels/sums.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::cuda::tokens_test {
namespace {

// Tokens of rows, or what rows of logits are to give.
struct Text {
  std::int64_t batch = 3, length, vocabulary;
  std::vector<std::int32_t> ids;
  explicit Text(std::int64_t v, std::int64_t tokens = 170) : length(tokens), vocabulary(v) {
    std::mt19937 engine(11);
    for (std::int64_t i = 0; i < rows(); ++i)
      ids.push_back(static_cast<std::int32_t>(engine() % static_cast<unsigned>(v)));
  }
  [[nodiscard]] std::int64_t rows() const { return batch * length; }
};

// Logits of a vocabulary in `count` tables of as many rows, the last filled up.
template <class E>
struct DividedText {
  const Text& text;
  std::int64_t rows, n = text.rows();
  std::vector<float> x;  // [part, row of logits, column]
  DividedText(const Text& of, int count, std::int64_t rows_each)
      : text(of), rows(rows_each), x(random_held<E>(count * n * rows, 17)) {}
  [[nodiscard]] double logit(std::int64_t part, std::int64_t r, std::int64_t j) const {
    return x[size((part * n + r) * rows + j)];
  }
  [[nodiscard]] std::int64_t classes(std::int64_t part) const {
    return std::min(rows, text.vocabulary - part * rows);
  }
  [[nodiscard]] std::vector<E> padded(int part, std::int64_t row) const {
    std::vector<E> values(size(n * row), static_cast<E>(7.0F));
    for (std::int64_t r = 0; r < n; ++r) {
      for (std::int64_t j = 0; j < rows; ++j)
        values[size(r * row + j)] = static_cast<E>(static_cast<float>(logit(part, r, j)));
    }
    return values;
  }
  // The gradient of a part's row, and -log softmax[target] of the whole.
  double expect_row(int part, std::int64_t r, double scale, double* gradient) const {
    double total = 0;
    for (std::int64_t j = 0; j < text.vocabulary; ++j)
      total += std::exp(logit(j / rows, r, j % rows));
    const std::int64_t target = text.ids[size(r)];
    if (target < 0) {  // no label, so neither loss nor gradient
      std::fill_n(gradient, rows, 0.0);
      return 0;
    }
    for (std::int64_t j = 0; j < rows; ++j) {
      const double one = part * rows + j == target ? 1 : 0;
      gradient[j] = j < classes(part) ? (std::exp(logit(part, r, j)) / total - one) * scale : 0;
    }
    return std::log(total) - logit(target / rows, r, target % rows);
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
    cross_entropy<E>({logits.get(), vocabulary, row}, {ids.get(), text.rows()}, scale,
                     row_losses.get(), loss.get(), nullptr);
    double expected_loss = 0;
    std::vector<double> expected(x.begin(), x.end());  // between the rows nothing changes
    for (std::int64_t r = 0; r < text.rows(); ++r) {
      double total = 0;
      const std::int64_t target = text.ids[size(r)];
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

// What the head of images and of masked tokens reads: labels in fp32; and places without one, which
// have no loss and no gradient, in rows that begin on 16 bytes and in rows that do not.
TYPED_TEST(CudaKernelTokens, CrossEntropyOfLabels) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  for (const bool fp32 : {false, true}) {
    for (const std::int64_t vocabulary : {29, 32}) {
      Text text(vocabulary, 40);
      for (std::size_t r = 0; r < text.ids.size(); r += 3) text.ids[r] = -100;
      std::vector<std::int32_t> words;
      for (const std::int32_t id : text.ids)
        words.push_back(fp32 ? std::bit_cast<std::int32_t>(static_cast<float>(id)) : id);
      const std::int64_t n = text.rows();
      const auto x = random_held<E>(n * vocabulary, 12);
      const DeviceArray<std::int32_t> ids(words);
      const DeviceArray<E> logits(to_elements<E>(x));
      const DeviceArray<double> row_losses(size(n)), loss(1);
      const double scale = 1.0 / 64;
      cross_entropy<E>({logits.get(), vocabulary, vocabulary}, {ids.get(), n, fp32},
                       static_cast<float>(scale), row_losses.get(), loss.get(), nullptr);
      std::vector<double> expected(x.size(), 0);
      double expected_loss = 0;
      for (std::int64_t r = 0; r < n; ++r) {
        if (text.ids[size(r)] < 0) continue;
        const auto logit = [&](std::int64_t j) { return double{x[size(r * vocabulary + j)]}; };
        double total = 0;
        for (std::int64_t j = 0; j < vocabulary; ++j) total += std::exp(logit(j));
        for (std::int64_t j = 0; j < vocabulary; ++j) {
          const double one = j == text.ids[size(r)] ? 1 : 0;
          expected[size(r * vocabulary + j)] = (std::exp(logit(j)) / total - one) * scale;
        }
        expected_loss += (std::log(total) - logit(text.ids[size(r)])) * scale;
      }
      expect_close(host_floats(logits), expected, kElement<E>, 0);
      EXPECT_NEAR(loss.host()[0], expected_loss, 1e-5 * expected_loss);
    }
  }
}

// A vocabulary of 29 tokens in tables of 10 rows, 9,001 in tables of 3,001: the last is filled up
// by a row, or by two. What the devices find together is what one finds.
TYPED_TEST(CudaKernelTokens, CrossEntropyOfADividedVocabulary) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  constexpr int kParts = 3;
  struct Sizes {
    std::int64_t vocabulary, rows, row;
  };
  for (const auto& [vocabulary, rows, row] : {Sizes{29, 10, 10}, Sizes{9001, 3001, 3008}}) {
    Text text(vocabulary, 21);
    for (std::size_t r = 0; r < text.ids.size(); r += 3) text.ids[r] = -100;
    const DividedText<E> parts(text, kParts, rows);
    const std::int64_t n = text.rows();
    const DeviceArray<std::int32_t> ids(text.ids);
    const Targets targets{ids.get(), n};
    const float scale = 1.0F / 64;
    std::vector<std::unique_ptr<DeviceArray<E>>> held;
    for (int part = 0; part < kParts; ++part)
      held.push_back(std::make_unique<DeviceArray<E>>(parts.padded(part, row)));
    const auto of = [&](int part) {
      return DividedLogits<E>{
          {held[size(part)]->get(), parts.classes(part), row}, part * parts.rows, parts.rows};
    };
    std::vector<float> largest(size(n), -1e30F), powers(size(n), 0.0F), at_target(size(n), 0.0F);
    for (int part = 0; part < kParts; ++part) {
      const DeviceFloats found(size(n));
      largest_logits<E>(of(part), targets, {found.get(), nullptr, nullptr}, nullptr);
      const std::vector<float> top = found.host();
      for (std::size_t r = 0; r < top.size(); ++r) largest[r] = std::max(largest[r], top[r]);
    }
    const DeviceFloats all_largest(largest);
    for (int part = 0; part < kParts; ++part) {
      const DeviceFloats sums(size(n)), at(size(n));
      sum_powers<E>(of(part), targets, {all_largest.get(), sums.get(), at.get()}, nullptr);
      const std::vector<float> own_sums = sums.host(), own_targets = at.host();
      for (std::size_t r = 0; r < own_sums.size(); ++r) {
        powers[r] += own_sums[r];
        at_target[r] += own_targets[r];
      }
    }
    const DeviceFloats all_powers(powers), all_targets(at_target);
    for (int part = 0; part < kParts; ++part) {
      const DeviceArray<double> row_losses(size(n)), loss(1);
      divided_cross_entropy<E>(of(part), targets, scale,
                               {all_largest.get(), all_powers.get(), all_targets.get()},
                               row_losses.get(), loss.get(), nullptr);
      std::vector<double> expected(size(n * row), 7);  // between the rows nothing changes
      double expected_loss = 0;
      for (std::int64_t r = 0; r < n; ++r)
        expected_loss += scale * parts.expect_row(part, r, scale, &expected[size(r * row)]);
      expect_close(host_floats(*held[size(part)]), expected, kElement<E>, 0);
      EXPECT_NEAR(loss.host()[0], expected_loss, 1e-5 * expected_loss) << part;
    }
  }
}

// A table of tokens 10 to 19 of 29 gives zeros for the others, and positions and masks come behind
// the sum: of rows 8 to 23, as if of all.
TYPED_TEST(CudaKernelTokens, ATableOfSomeTokens) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  const Text text(29, 13);
  const TableRows has{10, 10};
  const StepOnDevice step(1);
  const DropoutMask mask = step.mask(0.2, DropoutSite::embedding);
  for (const std::int64_t h : {36, 64}) {
    const auto token = random_held<E>(has.count * h, 13),
               position = random_held<E>(text.length * h, 14);
    const auto dy = random_held<E>(text.rows() * h, 15);
    const DeviceArray<std::int32_t> ids(text.ids);
    const DeviceArray<E> token_in(to_elements<E>(token)), position_in(to_elements<E>(position)),
        dy_in(to_elements<E>(dy)), y(dy.size());
    const DeviceFloats dtoken(token);
    const Tokens tokens{ids.get(), text.batch, text.length};
    embed<E>(tokens, has, {token_in.get()}, h, {}, y.get(), nullptr);
    embed_gradient<E>(tokens, has, dy_in.get(), h, {}, dtoken.get(), nullptr, nullptr);
    const std::int64_t first = 8, rows = 16;
    std::vector<double> found, summed, dtoken_expected(token.begin(), token.end());
    for (std::int64_t r = 0; r < text.rows(); ++r) {
      const std::int64_t of_table = text.ids[size(r)] - has.first;
      const bool here = of_table >= 0 && of_table < has.count;
      for (std::int64_t j = 0; j < h; ++j) {
        const double value = here ? double{token[size(of_table * h + j)]} : 0;
        found.push_back(value);
        if (here) dtoken_expected[size(of_table * h + j)] += dy[size(r * h + j)];
        if (r < first || r >= first + rows) continue;
        const double place = position[size(r % text.length * h + j)];
        summed.push_back((value + place) * mask.factor(static_cast<std::uint64_t>(r * h + j)));
      }
    }
    expect_close(host_floats(y), found, 0);
    expect_close(dtoken.host(), dtoken_expected, kSum<float>);
    DropoutMask of_run = mask;
    of_run.first_block = static_cast<std::uint64_t>(first * h / 4);
    add_positions<E>(position_in.get(), first, text.length, step.on_device(of_run), {rows, h},
                     y.get() + first * h, nullptr);
    const std::vector<float> all = host_floats(y);
    expect_close({all.begin() + first * h, all.begin() + (first + rows) * h}, summed, kElement<E>);
  }
}

// 2700 rows, more than a block looks at between two meetings. Every token comes often, but three:
// one in the first row and near the last; one far from the begin only; and one never.
TYPED_TEST(CudaKernelTokens, EmbeddingAndItsGradient) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  Text text(29, 900);
  text.vocabulary += 3;
  text.ids[0] = text.ids[2650] = 29;
  text.ids[2400] = 30;
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
    const TableRows all{0, text.vocabulary};
    embed<E>(tokens, all, {token_in.get(), position_in.get()}, h, step.on_device(mask), y.get(),
             nullptr);
    embed_gradient<E>(tokens, all, dy_in.get(), h, step.on_device(mask), dtoken.get(),
                      dposition.get(), nullptr);  // adds
    std::vector<double> y_expected, dtoken_expected(token.begin(), token.end()),
        dposition_expected(position.begin(), position.end());
    for (std::int64_t row = 0; row < text.rows(); ++row) {
      for (std::int64_t j = 0; j < h; ++j) {
        const std::size_t t = size(text.ids[size(row)] * h + j),
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

// Three types, one of them of no row; 120 rows are three parts of a sum and some. The gradient is
// overwritten, then added to.
TYPED_TEST(CudaKernelTokens, TypesAndTheirGradient) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  constexpr std::int64_t kTypes = 3;
  const Text text(29, 40);
  std::vector<std::int32_t> types;
  for (const std::int32_t id : text.ids) types.push_back(id % 2);
  const StepOnDevice step(1);
  const DropoutMask mask = step.mask(0.2, DropoutSite::embedding);
  for (const std::int64_t h : {300, 64}) {
    const auto token = random_held<E>(text.vocabulary * h, 13),
               type = random_held<E>(kTypes * h, 14);
    const auto dy = random_held<E>(text.rows() * h, 15);
    const DeviceArray<std::int32_t> ids(text.ids), types_in(types);
    const DeviceArray<E> token_in(to_elements<E>(token)), type_in(to_elements<E>(type)),
        dy_in(to_elements<E>(dy)), y(dy.size());
    const DeviceFloats gradient(type.size()), partials(size(kTypes * h * partials_of(text.rows())));
    const Tokens tokens{ids.get(), text.batch, text.length, types_in.get()};
    embed<E>(tokens, {0, text.vocabulary}, {token_in.get(), nullptr, type_in.get()}, h,
             step.on_device(mask), y.get(), nullptr);
    for (const Beta beta : {Beta::zero, Beta::one}) {
      type_gradient<E>(tokens, dy_in.get(), {kTypes, h}, step.on_device(mask), beta, partials.get(),
                       gradient.get(), nullptr);
    }
    std::vector<double> y_expected, expected(type.size(), 0);
    for (std::int64_t row = 0; row < text.rows(); ++row) {
      for (std::int64_t j = 0; j < h; ++j) {
        const std::size_t t = size(types[size(row)] * h + j);
        const double factor = mask.factor(static_cast<std::uint64_t>(row * h + j));
        y_expected.push_back((double{token[size(text.ids[size(row)] * h + j)]} + type[t]) * factor);
        expected[t] += 2 * dy[size(row * h + j)] * factor;
      }
    }
    expect_close(host_floats(y), y_expected, kElement<E>);
    expect_close(gradient.host(), expected, kSum<float>);
  }
}

}  // namespace
}  // namespace weir::cuda::tokens_test
