// A line of what the CUDA executor finds on this machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir {

// One thing that works here or does not, and what is to be said of it in a line.
struct CudaFact {
  std::string what;
  bool works = false;
  std::string why;
};

}  // namespace weir
