// Queries and keys turned to their positions, with norms before and without, against their
// definitions in double precision; what is kept, and the gradients by the chain rule. Values beside
// them stay. Tolerances: device.hpp; a turn adds two products of numbers that may cancel.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/heads.hpp"

#include <gtest/gtest.h>

#include <array>

#include "exec/training/rotary_tables.hpp"
#include "tests/exec_cuda/device.hpp"

namespace weir::cuda::heads_test {
namespace {

constexpr std::int64_t kRows = 37, kLength = 20, kQueries = 5, kKeys = 2;
constexpr std::int64_t kTurned = kQueries + kKeys, kAll = kQueries + 2 * kKeys;
constexpr double kEpsilon = 1e-5;
// 6: pairs one by one, three threads of four. 80 and 128: vectors, some threads of a group idle in
// bf16 and none. 200: pairs one by one in bf16, four a thread, and vectors in fp32. 256: the
// widest.
const std::array<std::int64_t, 5> kWidths = {6, 80, 128, 200, 256};

std::vector<float> table_of(std::int64_t d) {
  RotaryTables tables;
  tables.prepare({}, d, kLength);
  std::vector<float> found(size(kLength * d));
  tables.use(found.data(), [](float* to, const std::vector<float>& table) {
    std::copy(table.begin(), table.end(), to);
  });
  return found;
}

// Head h of a row, where it stands in qkv and among what is kept.
struct Places {
  std::int64_t d;
  [[nodiscard]] std::size_t qkv(std::int64_t row, std::int64_t head, std::int64_t i) const {
    return size((row * kAll + head) * d + i);
  }
  [[nodiscard]] std::size_t kept(std::int64_t row, std::int64_t head, std::int64_t i) const {
    return size((row * kTurned + head) * d + i);
  }
};

template <class Visit>
void for_turned(Visit visit) {
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t head = 0; head < kTurned; ++head) visit(row, head);
  }
}

// One head, turned by its row's angles or, with -1, back.
void turn_head(const std::vector<float>& table, std::int64_t row, double sign,
               std::vector<double>& x) {
  const auto d = static_cast<std::int64_t>(x.size()), half = d / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const double cosine = table[size(row % kLength * d + i)],
                 sine = sign * table[size(row % kLength * d + half + i)];
    const double a = x[size(i)], b = x[size(half + i)];
    x[size(i)] = a * cosine - b * sine;
    x[size(half + i)] = b * cosine + a * sine;
  }
}

std::vector<double> head_of(const std::vector<float>& x, std::size_t at, std::int64_t d) {
  const auto begin = x.begin() + static_cast<std::ptrdiff_t>(at);
  return {begin, begin + static_cast<std::ptrdiff_t>(d)};
}

template <class E>
class CudaKernelHeads : public ::testing::Test {};
TYPED_TEST_SUITE(CudaKernelHeads, ElementTypes);

TYPED_TEST(CudaKernelHeads, TurnForthAndBack) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  for (const std::int64_t d : kWidths) {
    const std::vector<float> table = table_of(d);
    const auto x = random_held<E>(kRows * kAll * d, 1);
    const DeviceFloats table_in(table);
    const Heads heads{kRows, kLength, kQueries, kKeys, d, table_in.get()};
    const Places at{d};
    for (const Turn turn : {Turn::forth, Turn::back}) {
      const DeviceArray<E> qkv(to_elements<E>(x));
      turn_heads<E>(heads, turn, qkv.get(), nullptr);
      std::vector<double> expected(x.begin(), x.end());
      for_turned([&](std::int64_t row, std::int64_t head) {
        std::vector<double> one = head_of(x, at.qkv(row, head, 0), d);
        turn_head(table, row, turn == Turn::forth ? 1 : -1, one);
        for (std::int64_t i = 0; i < d; ++i) expected[at.qkv(row, head, i)] = one[size(i)];
      });
      expect_close(host_floats(qkv), expected, kElement<E>);
    }
  }
}

struct Normed {
  std::vector<double> qkv, statistics;
};
Normed normed(const std::vector<float>& x, const std::array<std::vector<float>, 2>& gains,
              const std::vector<float>* table, std::int64_t d) {
  const Places at{d};
  Normed all{{x.begin(), x.end()}, {}};
  for_turned([&](std::int64_t row, std::int64_t head) {
    std::vector<double> one = head_of(x, at.qkv(row, head, 0), d);
    double squares = 0;
    for (const double value : one) squares += value * value;
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(d) + kEpsilon);
    for (std::int64_t i = 0; i < d; ++i)
      one[size(i)] *= inverse * gains[head < kQueries ? 0 : 1][size(i)];
    if (table != nullptr) turn_head(*table, row, 1, one);
    for (std::int64_t i = 0; i < d; ++i) all.qkv[at.qkv(row, head, i)] = one[size(i)];
    all.statistics.push_back(inverse);
  });
  return all;
}

// dn = the turn back of dy; dx = (dn gain - n mean(dn gain n)) / rms with n = x / rms; a gain's
// gradient is the sum of dn n over rows and its heads.
struct NormedGradients {
  std::vector<double> qkv;
  std::array<std::vector<double>, 2> gains;
};
NormedGradients normed_gradients(const std::vector<float>& x, const std::vector<float>& dy,
                                 const std::array<std::vector<float>, 2>& gains,
                                 const std::vector<double>& statistics,
                                 const std::vector<float>* table, std::int64_t d) {
  const Places at{d};
  NormedGradients all{{dy.begin(), dy.end()},
                      {std::vector<double>(size(d)), std::vector<double>(size(d))}};
  for_turned([&](std::int64_t row, std::int64_t head) {
    const std::size_t which = head < kQueries ? 0 : 1;
    const double inverse = statistics[size(row * kTurned + head)];
    const std::vector<double> raw = head_of(x, at.qkv(row, head, 0), d);
    std::vector<double> dn = head_of(dy, at.qkv(row, head, 0), d);
    if (table != nullptr) turn_head(*table, row, -1, dn);
    double product = 0;
    for (std::size_t i = 0; i < size(d); ++i)
      product += dn[i] * gains[which][i] * raw[i] * inverse / static_cast<double>(d);
    for (std::size_t i = 0; i < size(d); ++i) {
      const double n = raw[i] * inverse;
      all.gains[which][i] += dn[i] * n;
      all.qkv[at.qkv(row, head, static_cast<std::int64_t>(i))] =
          (dn[i] * gains[which][i] - n * product) * inverse;
    }
  });
  return all;
}

template <class E>
void check_norms(std::int64_t d, bool turns) {
  SCOPED_TRACE("d " + std::to_string(d) + (turns ? ", turned" : ""));
  const std::vector<float> table = table_of(d);
  const std::vector<float>* angles = turns ? &table : nullptr;
  const auto x = random_held<E>(kRows * kAll * d, 1), dy = random_held<E>(kRows * kAll * d, 2);
  const std::array gains = {random_held<E>(d, 3), random_held<E>(d, 4)};
  const DeviceFloats table_in(table), statistics(size(kRows * kTurned)), query_gradient(size(d)),
      key_gradient(size(d)), partials(size(2 * d * partials_of(kRows)));
  const DeviceArray<E> qkv(to_elements<E>(x)), d_qkv(to_elements<E>(dy)),
      query_gain(to_elements<E>(gains[0])), key_gain(to_elements<E>(gains[1])),
      raw(size(kRows * kTurned * d));
  const Heads heads{kRows, kLength, kQueries, kKeys, d, turns ? table_in.get() : nullptr};
  const HeadNorms<E> norms{query_gain.get(), key_gain.get(), 1e-5F, raw.get(), statistics.get()};

  norm_heads<E>(heads, norms, qkv.get(), nullptr);
  const Normed expected = normed(x, gains, angles, d);
  expect_close(host_floats(qkv), expected.qkv, kSum<E>);
  expect_close(statistics.host(), expected.statistics, kSum<float>);
  std::vector<double> kept(size(kRows * kTurned * d));
  const Places at{d};
  for_turned([&](std::int64_t row, std::int64_t head) {
    for (std::int64_t i = 0; i < d; ++i) kept[at.kept(row, head, i)] = x[at.qkv(row, head, i)];
  });
  expect_close(host_floats(raw), kept, 0);

  norm_heads_gradient<E>(heads, {norms, query_gradient.get(), key_gradient.get(), partials.get()},
                         d_qkv.get(), nullptr);
  const NormedGradients wanted = normed_gradients(x, dy, gains, expected.statistics, angles, d);
  expect_close(host_floats(d_qkv), wanted.qkv, kSum<E>);
  expect_close(query_gradient.host(), wanted.gains[0], kSum<float>);  // in fp32 whatever E is
  expect_close(key_gradient.host(), wanted.gains[1], kSum<float>);
}

TYPED_TEST(CudaKernelHeads, NormsAndTheirGradients) {
  WEIR_NEEDS_DEVICE();
  for (const std::int64_t d : kWidths) check_norms<TypeParam>(d, true);
  check_norms<TypeParam>(64, false);
}

}  // namespace
}  // namespace weir::cuda::heads_test
