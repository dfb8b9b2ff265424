// The one check of NCCL calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <nccl.h>

#include <string_view>

#include "exec/cuda/driver/cuda_check.hpp"

namespace weir {

// Communicators here do not block, so "in progress" is no error. Throws RunFailed with NCCL's last
// words, which say what its status does not: which call of CUDA failed, or which peer is gone.
inline void check_nccl(ncclResult_t status, const char* expression, const char* file, int line) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  const char* last = ncclGetLastError(nullptr);
  const std::string_view words = last == nullptr ? "" : last;
  fail_call("NCCL",
            fmt::format("{}{}{}", ncclGetErrorString(status), words.empty() ? "" : ", ", words),
            expression, file, line);
}

}  // namespace weir

#define NCCL_CHECK(expression) ::weir::check_nccl((expression), #expression, __FILE__, __LINE__)
