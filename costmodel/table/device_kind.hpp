// What a cluster's devices are, as far as its file says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/job/cluster.hpp"

namespace weir {

// A GPU or the like, a core of this machine's CPU, or what may be either.
enum class DeviceKind : std::uint8_t { gpu, core, other };

// What a core of this machine is called.
inline constexpr const char* kCpuCore = "cpu-core";

// Known by its multiprocessors, which files may leave out.
[[nodiscard]] inline bool is_gpu(const Device& device) { return device.multiprocessors > 0; }

[[nodiscard]] inline DeviceKind kind_of(const Device& device) {
  if (is_gpu(device)) return DeviceKind::gpu;
  return device.name == kCpuCore ? DeviceKind::core : DeviceKind::other;
}

}  // namespace weir
