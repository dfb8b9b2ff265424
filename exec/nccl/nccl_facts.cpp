// Asks NCCL its version, where it is.
// SPDX-License-Identifier: Apache-2.0
#include "exec/nccl/nccl_facts.hpp"

#include "exec/nccl/nccl_check.hpp"
#include "exec/nccl/nccl_library.hpp"

namespace weir {

NcclFacts nccl_facts() {
  if (std::string missing = nccl_missing(); !missing.empty()) return {false, missing};
  int version = 0;  // 10000 * major + 100 * minor + patch
  NCCL_CHECK(ncclGetVersion(&version));
  return {true, fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100)};
}

}  // namespace weir
