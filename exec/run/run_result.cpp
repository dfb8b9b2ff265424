// What the ranks' device memory adds up to.
// SPDX-License-Identifier: Apache-2.0
#include "exec/run/run_result.hpp"

namespace weir {

std::vector<Bytes> outside_the_pools(const std::vector<DeviceUse>& ranks) {
  std::vector<Bytes> outside;
  for (const DeviceUse& use : ranks) {
    const auto device = static_cast<std::size_t>(use.device);
    if (device >= outside.size()) outside.resize(device + 1);
    outside[device] = use.device_used;  // the latest reading stands for all
  }
  // Twice over the ranks: what a device uses is read once, what pools hold is taken off for each.
  for (const DeviceUse& use : ranks)
    outside[static_cast<std::size_t>(use.device)] -= use.pool_reserved;
  return outside;
}

}  // namespace weir
