// What a machine says of its CUDA, here mostly: that there is none, and why.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/device_info.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "exec/cuda/driver/cuda_check.hpp"
#include "exec/cuda/driver/driver_api.hpp"
#include "exec/cuda/sm/sm_groups.hpp"

namespace weir::device_info_test {
namespace {

// CUDA counts 1000 a major and 10 a minor version.
TEST(DeviceInfo, VersionsAsCudaCountsThem) {
  EXPECT_EQ(cuda_version(13000), "13.0");
  EXPECT_EQ(cuda_version(12050), "12.5");
}

// Whatever the machine has, driver and libraries have a line each, no line is without words, and
// nothing throws.
TEST(DeviceInfo, EveryCapabilityIsALine) {
  const std::vector<CudaFact> facts = cuda_capabilities();
  for (const char* what : {"CUDA driver", "cuBLASLt", "cuDNN"}) {
    EXPECT_TRUE(std::any_of(facts.begin(), facts.end(), [&](const CudaFact& f) {
      return f.what == what;
    })) << what;
  }
  for (const CudaFact& fact : facts) {
    EXPECT_NE(fact.why, "") << fact.what;
    EXPECT_EQ(fact.why.find('\n'), std::string::npos) << fact.why;
  }
  const bool any_gpu = std::any_of(facts.begin(), facts.end(),
                                   [](const auto& f) { return f.what == "GPU 0" && f.works; });
  EXPECT_EQ(any_gpu, cuda_facts().device.has_value());
}

// Without a driver the look-up is an answer, and so is a division of a device that is not there.
TEST(DriverApi, NoDriverIsAnAnswer) {
  const CudaFacts facts = cuda_facts();
  if (facts.device) GTEST_SKIP() << "there is a device: " << facts.why;
  const DriverLookup found = find_driver_api();
  if (found.api) GTEST_SKIP() << "a driver without a device";
  EXPECT_TRUE(found.why.starts_with("cuGetErrorString cannot be looked up: ")) << found.why;
  const SmGroupsResult divided = divide_device(0, 2);
  EXPECT_EQ(divided.groups, nullptr);
  EXPECT_EQ(divided.why, found.why);
}

// What a kernel did stays, and so does what the driver says of it under the same number; a full
// device or a call with a wrong argument concerns that call alone.
TEST(ErrorsOfCuda, WhichOnesStay) {
  EXPECT_TRUE(stays(cudaErrorIllegalAddress));
  EXPECT_TRUE(stays(static_cast<cudaError_t>(CUDA_ERROR_LAUNCH_FAILED)));
  EXPECT_FALSE(stays(cudaErrorMemoryAllocation));
  EXPECT_FALSE(stays(cudaErrorInvalidValue));
  EXPECT_EQ(static_cast<cudaError_t>(CUDA_ERROR_DEINITIALIZED), cudaErrorCudartUnloading);
}

}  // namespace
}  // namespace weir::device_info_test
