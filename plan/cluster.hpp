// The devices to train on: how many, what each can do by its datasheet, and what connects them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "plan/units.hpp"

namespace weir {

// Who hands out a device's memory, and so in what steps: our own arena, or PyTorch's caching allocator.
enum class Allocator : std::uint8_t { arena, pytorch };

struct Device {
  std::string name;             // "H100-SXM5-80GB", "cpu-core"
  Bytes memory{0};              // usable by one rank
  FlopsPerSecond peak_fp32{0};  // 0: the device has no such unit
  FlopsPerSecond peak_tf32{0};
  FlopsPerSecond peak_bf16{0};
  BytesPerSecond memory_bandwidth{0};
  int multiprocessors = 0;  // GPUs: for wave quantisation; 0: not applicable
  Allocator allocator = Allocator::arena;
  Bytes process_overhead{0};  // device memory that a process takes before its first tensor
};

struct Link {
  Seconds latency{0};
  BytesPerSecond bandwidth{0};  // one direction
};

// Nodes of equal devices: `intra` between two devices of a node, `inter` between nodes. Ranks fill nodes in order.
struct Cluster {
  std::string name;
  Device device;
  int devices_per_node = 1;
  int nodes = 1;
  Link intra;
  Link inter;
  std::map<std::int32_t, double> stragglers;  // rank -> how many times slower it computes; not in the file
  std::vector<std::string> origin;            // where each constant comes from, one line each

  [[nodiscard]] int devices() const { return devices_per_node * nodes; }
  [[nodiscard]] const Link& link(Rank from, Rank to) const {
    return from.value / devices_per_node == to.value / devices_per_node ? intra : inter;
  }
};

// Schema weir.cluster/1; quantities are texts with units ("80 GiB", "900 GB/s", "5 us"). Throws InputError.
[[nodiscard]] Cluster load_cluster(const std::filesystem::path& file);

}  // namespace weir
