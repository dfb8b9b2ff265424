// Asks NCCL its version, where it is.
// SPDX-License-Identifier: Apache-2.0
#include "exec/nccl/nccl_facts.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "exec/nccl/nccl_check.hpp"
#include "exec/nccl/nccl_library.hpp"
#include "plan/words/error.hpp"

namespace weir {

NcclFacts nccl_facts() {
  if (std::string missing = nccl_missing(); !missing.empty()) return {false, missing};
  int version = 0;  // 10000 * major + 100 * minor + patch
  NCCL_CHECK(ncclGetVersion(&version));
  return {true, fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100)};
}

void let_ranks_share_gpus() {
  require_nccl();
  constexpr int kFirst = 23000;
  int version = 0;
  NCCL_CHECK(ncclGetVersion(&version));
  if (version < kFirst) {
    throw MissingComponent(
        fmt::format("{} puts no two processes on one GPU; 2.30 or later does", nccl_facts().why));
  }
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
}

}  // namespace weir
