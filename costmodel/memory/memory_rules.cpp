// The rules of a cluster and the stack on it.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/memory_rules.hpp"

namespace weir {

Bytes process_overhead(const Cluster& cluster) {
  const Bytes process = cluster.stack.memory.process;
  return process.count() > 0 ? process : cluster.device.process_overhead;
}

MemoryRules memory_rules(const Cluster& cluster, const ModelPart& part) {
  return {cluster.device.allocator, process_overhead(cluster), cluster.stack, &part,
          cluster.devices_per_node};
}

}  // namespace weir
