// What the tests on a device share: arrays there and back, poisoned before use, and random inputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "exec/cuda/cuda_check.hpp"
#include "exec/cuda/device_info.hpp"

namespace weir {

#define WEIR_NEEDS_DEVICE()                                  \
  if (const CudaFacts facts = cuda_facts(); !facts.device) { \
    GTEST_SKIP() << facts.why;                               \
  }                                                          \
  static_assert(true)

// Device memory for a test; what no kernel wrote is NaN (all bits one).
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)));
    CUDA_CHECK(cudaMemset(data_, 0xFF, count * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    CUDA_CHECK(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
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
  T* data_ = nullptr;
  std::size_t count_;
};
using DeviceFloats = DeviceArray<float>;

inline std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

// `tolerance` is relative to the larger of 1 and the expected value.
inline void expect_close(const std::vector<float>& found, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_LE(std::abs(found[i] - expected[i]), tolerance * std::max(1.0, std::abs(expected[i])))
        << "element " << i << ": " << found[i] << " for " << expected[i];
  }
}

}  // namespace weir
