// What NCCL this build speaks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir {

struct NcclFacts {
  std::string version;  // the library's that was loaded, "NCCL 2.28.9"
};

[[nodiscard]] NcclFacts nccl_facts();

}  // namespace weir
