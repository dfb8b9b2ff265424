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

// Lets ranks of one communicator stand on one GPU, which NCCL does from 2.30 on where it is told so
// (NCCL_MULTI_RANK_GPU_ENABLE) before its first call. Throws MissingComponent where it does not.
void let_ranks_share_gpus();

}  // namespace weir
