// What the tests on a device share: arrays there and back, poisoned before use, and random inputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "exec/cuda/device_info.hpp"
#include "exec/cuda/driver/cuda_check.hpp"
#include "exec/cuda/kernels/types.hpp"

namespace weir {

#define WEIR_NEEDS_DEVICE()                                  \
  if (const CudaFacts facts = cuda_facts(); !facts.device) { \
    GTEST_SKIP() << facts.why;                               \
  }                                                          \
  static_assert(true)

#define WEIR_NEEDS_BF16()                                                    \
  WEIR_NEEDS_DEVICE();                                                       \
  if (const CudaFacts facts = cuda_facts(); facts.device->major < 8) {       \
    GTEST_SKIP() << "no bf16 products before capability 8.0: " << facts.why; \
  }                                                                          \
  static_assert(true)

// Device memory for a test; what no kernel wrote is NaN (all bits one).
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)));
    CUDA_CHECK(cudaMemset(data_, 0xFF, count * sizeof(T)));
    settle();
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    CUDA_CHECK(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
    settle();
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { CUDA_CHECK_NOEXCEPT(cudaFree(data_)); }

  [[nodiscard]] T* get() const { return data_; }
  [[nodiscard]] std::vector<T> host() const {
    std::vector<T> values(count_);
    CUDA_CHECK(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  // Filling returns before it is done, and streams that do not wait for the default stream would
  // come in between.
  static void settle() { CUDA_CHECK(cudaStreamSynchronize(nullptr)); }

  T* data_ = nullptr;
  std::size_t count_;
};
using DeviceFloats = DeviceArray<float>;

template <class E>
std::vector<float> host_floats(const DeviceArray<E>& array) {
  const std::vector<E> values = array.host();
  std::vector<float> floats;
  for (const E value : values) floats.push_back(static_cast<float>(value));
  return floats;
}

inline std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

inline std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

// The types of activations and working weights, for typed tests.
using ElementTypes = ::testing::Types<float, cuda::Bf16>;

template <class E>
std::vector<E> to_elements(const std::vector<float>& values) {
  return std::vector<E>(values.begin(), values.end());
}
// What the device holds of these numbers: a reference begins from it.
template <class E>
std::vector<float> held(const std::vector<float>& values) {
  std::vector<float> floats;
  for (const float value : values) floats.push_back(static_cast<float>(static_cast<E>(value)));
  return floats;
}
template <class E>
std::vector<float> random_held(std::int64_t count, unsigned seed) {
  return held<E>(random_floats(size(count), seed));
}

// fp32 rounds by 6e-8 of a number; a sum of n terms of size 1 errs by at most n * 6e-8, in trees by
// far less: 1e-4 covers the sums of these tests (at most 1000 terms), 1e-5 what has no sum. A
// result in bf16 is rounded once more, by 2^-9 of it; twice that is asked, since the sum before it
// may decide which neighbour is the nearest.
template <class E>
constexpr double kElement = sizeof(E) == 4 ? 1e-5 : 4e-3;
template <class E>
constexpr double kSum = sizeof(E) == 4 ? 1e-4 : 4e-3;

// Masks of a test: their step lies on the device, as in training.
class StepOnDevice {
 public:
  explicit StepOnDevice(std::uint32_t step) : step_(step), numbers_(1) {
    cuda::begin_step(step, numbers_.get(), nullptr);
  }
  [[nodiscard]] const cuda::StepNumbers* get() const { return numbers_.get(); }
  // What the kernel takes, with a step that must not be looked at; and what the host draws.
  [[nodiscard]] cuda::StepMask on_device(const DropoutMask& mask) const {
    DropoutMask other = mask;
    other.step = mask.step + 77;
    return {other, numbers_.get()};
  }
  [[nodiscard]] DropoutMask mask(double probability, DropoutSite site) const {
    return dropout_mask(probability, 7, step_, 5, 1, site);
  }

 private:
  std::uint32_t step_;
  DeviceArray<cuda::StepNumbers> numbers_;
};

// `tolerance` is relative to the larger of the expected value and of `floor`: below it, terms that
// cancel decide how well a value can be known.
inline void expect_close(const std::vector<float>& found, const std::vector<double>& expected,
                         double tolerance, double floor = 1) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_LE(std::abs(found[i] - expected[i]), tolerance * std::max(floor, std::abs(expected[i])))
        << "element " << i << ": " << found[i] << " for " << expected[i];
  }
}

}  // namespace weir
