// What the CUDA executor finds here, and why it cannot run where it cannot.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/cuda/driver/cuda_fact.hpp"
#include "plan/words/units.hpp"

namespace weir {

struct CudaDevice {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  Bytes memory{0};
  Bytes second_level_cache{0};
};

struct CudaFacts {
  std::optional<CudaDevice> device;  // the first one; CUDA_VISIBLE_DEVICES chooses which that is
  std::string why;                   // one line: what works, or why nothing does
  int devices = 0;
  std::string toolkit;  // version of the CUDA runtime in use, "13.0"
};

// Never throws for want of a device or a driver.
[[nodiscard]] CudaFacts cuda_facts();

// Driver and toolkit, the devices, number formats, groups of multiprocessors, access between
// devices, cuBLASLt, cuDNN, CUPTI: one fact each. Never throws for want of a device or a driver.
[[nodiscard]] std::vector<CudaFact> cuda_capabilities();

// "13.0" for 13000, as CUDA's drivers and runtimes count.
[[nodiscard]] std::string cuda_version(int number);

}  // namespace weir
