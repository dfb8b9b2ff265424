// What a tool counts where it prints the memory of a device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace weir {

enum class MemoryCount : std::uint8_t {
  device,    // all that is taken of it (nvidia-smi)
  reserved,  // by PyTorch's caching allocator: without the process's context and libraries
  allocated  // of that, by tensors: without what the allocator keeps and no tensor uses
};

[[nodiscard]] constexpr std::string_view to_string(MemoryCount count) {
  return count == MemoryCount::device     ? "device"
         : count == MemoryCount::reserved ? "reserved"
                                          : "allocated";
}

}  // namespace weir
