// Who sees every kernel that a device runs: CUPTI on NVIDIA's. The events of a stream
// (exec/device/stream) say when an action began and ended; this says what ran in between.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "traces/kernels.hpp"

namespace weir {

class KernelWatch {
 public:
  virtual ~KernelWatch() = default;

  // What is launched from now on is of this step of the trace. Nothing is recorded before the first
  // call. Throws MissingComponent where this machine does not let kernels be recorded.
  virtual void begin_step(std::int32_t step) = 0;

  // What the calling thread launches between the two is of the action of this name: the streams
  // call them.
  virtual void begin_action(std::string_view name) = 0;
  virtual void end_action() = 0;

  // Everything that was recorded; afterwards nothing is. Precondition: what was launched is
  // finished.
  [[nodiscard]] virtual KernelRecords stop() = 0;
};

}  // namespace weir
