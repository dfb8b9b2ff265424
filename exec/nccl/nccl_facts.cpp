// Asks NCCL its version.
// SPDX-License-Identifier: Apache-2.0
#include "exec/nccl/nccl_facts.hpp"

#include "exec/nccl/nccl_check.hpp"

namespace weir {

NcclFacts nccl_facts() {
  int version = 0;  // 10000 * major + 100 * minor + patch
  NCCL_CHECK(ncclGetVersion(&version));
  return {fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100)};
}

}  // namespace weir
