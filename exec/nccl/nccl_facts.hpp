// What NCCL this machine has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir {

struct NcclFacts {
  bool present = false;
  std::string why;  // the library's version, "NCCL 2.28.9", or why there is none
};

[[nodiscard]] NcclFacts nccl_facts();

}  // namespace weir
