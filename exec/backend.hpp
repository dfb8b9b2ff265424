// A backend is one device as the interpreter sees it: allocate, launch a layer's kernels on a lane, record and wait
// for events, read the clock. The contract is asynchronous, as GPUs need: a launch may return before its work is
// done, and order across lanes is made by events only. A backend that completes each launch before it returns
// (cpu, synthetic) has trivial events.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plan/program.hpp"
#include "plan/units.hpp"

namespace weir {

// Device memory owned by the arena that made it; released by handing it back.
struct DeviceTensor {
  void* data = nullptr;
  std::int64_t bytes = 0;
};

}  // namespace weir
