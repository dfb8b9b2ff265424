// What the CUDA executor finds here, and why it cannot run where it cannot.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "plan/units.hpp"

namespace weir {

struct CudaDevice {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  Bytes memory{0};
};

struct CudaFacts {
  std::optional<CudaDevice> device;  // the first one; CUDA_VISIBLE_DEVICES chooses which that is
  std::string why;                   // one line: what works, or why nothing does
};

// Never throws for want of a device or a driver.
[[nodiscard]] CudaFacts cuda_facts();

}  // namespace weir
