// The one check of NCCL calls. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <nccl.h>

#include "plan/error.hpp"

namespace weir {

// Communicators here do not block, so "in progress" is no error.
inline void check_nccl(ncclResult_t status, const char* expression, const char* file, int line) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  throw RunFailed(fmt::format("{} ({}:{}): {}", expression, file, line, ncclGetErrorString(status)));
}

}  // namespace weir

#define NCCL_CHECK(expression) ::weir::check_nccl((expression), #expression, __FILE__, __LINE__)
