// Replicas' terms are added one after the other, as the host would: to the same bits.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/ordered_sums.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "tests/exec_cuda/device.hpp"

namespace weir::cuda::ordered_sums_test {
namespace {

// Three terms of arrays of 1 to 9,001 numbers, more arrays than a launch takes and longer ones than
// a block's piece of 4,096; this one's is first, in the middle, last. Sums of three floats in
// another order would differ in many of the numbers.
TEST(CudaKernelSums, TermsAreAddedInOrder) {
  WEIR_NEEDS_DEVICE();
  constexpr int kTerms = 3;
  std::vector<std::int64_t> lengths = {9'001, 64, 7};
  for (int i = 0; i < 150; ++i) lengths.push_back(1 + i % 5);
  std::int64_t stride = 0;
  for (const std::int64_t n : lengths) stride += n;
  std::vector<std::vector<float>> terms;
  for (unsigned term = 0; term < kTerms; ++term)
    terms.push_back(random_floats(size(stride), 70 + term));
  for (int own = 0; own < kTerms; ++own) {
    std::vector<float> others;
    for (int term = 0; term < kTerms; ++term) {
      const std::vector<float>& values = terms[size(term)];
      if (term != own) others.insert(others.end(), values.begin(), values.end());
    }
    const DeviceFloats mine(terms[size(own)]), theirs(others);
    std::vector<OrderedSum> sums;
    std::int64_t place = 0;
    for (const std::int64_t n : lengths) {
      sums.push_back({mine.get() + place, theirs.get() + place, n});
      place += n;
    }
    ordered_sums(sums, {kTerms, own, stride}, nullptr);
    std::vector<float> expected;
    for (std::size_t i = 0; i < size(stride); ++i)
      expected.push_back(terms[0][i] + terms[1][i] + terms[2][i]);
    EXPECT_EQ(mine.host(), expected) << own;
  }
}

// Of activations: three terms 1,000 or 1,003 numbers apart, the second of them unaligned, in fp32
// and rounded once; largest numbers too.
template <class E>
class CudaKernelCombine : public ::testing::Test {};
TYPED_TEST_SUITE(CudaKernelCombine, ElementTypes);

TYPED_TEST(CudaKernelCombine, TermsOfActivationsInOrder) {
  WEIR_NEEDS_DEVICE();
  using E = TypeParam;
  constexpr int kTerms = 3;
  for (const std::int64_t stride : {1'000, 1'003}) {
    const std::int64_t n = stride - 5;
    std::vector<std::vector<float>> terms;
    for (unsigned term = 0; term < kTerms; ++term)
      terms.push_back(random_held<E>(stride, 90 + term));
    for (int own = 0; own < kTerms; ++own) {
      std::vector<float> others;
      for (int term = 0; term < kTerms; ++term) {
        if (term != own)
          others.insert(others.end(), terms[size(term)].begin(), terms[size(term)].end());
      }
      const DeviceArray<E> mine(to_elements<E>(terms[size(own)])), theirs(to_elements<E>(others)),
          sum(size(n)), top(size(n));
      const SumOrder order{kTerms, own, stride};
      combine<E>(Together::sum, {mine.get(), theirs.get(), n, sum.get()}, order, nullptr);
      combine<E>(Together::largest, {mine.get(), theirs.get(), n, top.get()}, order, nullptr);
      std::vector<float> added, largest;
      for (std::size_t i = 0; i < size(n); ++i) {
        added.push_back(
            static_cast<float>(static_cast<E>(terms[0][i] + terms[1][i] + terms[2][i])));
        largest.push_back(std::max({terms[0][i], terms[1][i], terms[2][i]}));
      }
      EXPECT_EQ(host_floats(sum), added) << own;
      EXPECT_EQ(host_floats(top), largest) << own;
    }
  }
}

}  // namespace
}  // namespace weir::cuda::ordered_sums_test
