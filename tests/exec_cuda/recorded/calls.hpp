// What the stand-ins share: a call is counted, may be the one that is to fail, and has the machine
// to itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <mutex>

#include "tests/exec_cuda/recorded/machine.hpp"

namespace weir::recorded {

// Kept as the thread's last error, as the runtime does.
cudaError_t failed(cudaError_t error);

// On the stream's queue, or into the graph that captures it.
void put(Stream& stream, Operation operation);

// A stream of the device that is current; null, with a violation, where it is another's.
[[nodiscard]] Stream* stream_here(void* handle, const char* what);

}  // namespace weir::recorded

#define WEIR_CALL_OR(error)                                                \
  const std::scoped_lock recorded_lock(::weir::recorded::machine().mutex); \
  if (::weir::recorded::machine().fails()) return error
// An error that stays, which destructors take as well.
#define WEIR_CALL() WEIR_CALL_OR(::weir::recorded::failed(cudaErrorLaunchFailure))
