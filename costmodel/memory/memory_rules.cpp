// The rules of a cluster and the stack on it.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/memory/memory_rules.hpp"

#include <algorithm>

#include "plan/job/placement.hpp"

namespace weir {
namespace {

// `join`s what the kinds of nodes have that a rank stands on, from nothing.
template <class Join>
std::vector<Bytes> over_ranks(const Plan& plan, const Cluster& cluster, Join join) {
  std::vector<Bytes> joined;
  if (cluster.kinds() == 1) return joined;
  const Placement placement(plan, cluster);
  for (std::int32_t rank = 0; rank < plan.pp; ++rank) {
    Bytes& its = joined.emplace_back(0);
    for (const int kind : placement.kinds(Rank{rank})) its = join(its, cluster.kind(kind));
  }
  return joined;
}

}  // namespace

Bytes process_overhead(const Cluster& cluster) {
  const Bytes process = cluster.stack.memory.process;
  if (process.count() > 0) return process;
  Bytes least = cluster.device.process_overhead;
  for (const Cluster& pool : cluster.pools) least = std::min(least, pool.device.process_overhead);
  return least;
}

MemoryRules memory_rules(const Cluster& cluster, const ModelPart& part) {
  return {.allocator = cluster.device.allocator,
          .process_overhead = process_overhead(cluster),
          .stack = cluster.stack,
          .part = &part,
          .devices_per_node = cluster.devices_per_node};
}

MemoryRules memory_rules(const Plan& plan, const Cluster& cluster, const ModelPart& part) {
  MemoryRules rules = memory_rules(cluster, part);
  rules.rank_process = over_ranks(plan, cluster, [](Bytes so_far, const Cluster& kind) {
    return std::max(so_far, process_overhead(kind));
  });
  return rules;
}

std::vector<Bytes> rank_limits(const Plan& plan, const Cluster& cluster, Bytes limit) {
  std::vector<Bytes> limits = rank_memory(plan, cluster);
  limits.resize(static_cast<std::size_t>(plan.pp), limit);
  for (Bytes& its : limits) its = std::min(its, limit);
  return limits;
}

std::vector<Bytes> rank_memory(const Plan& plan, const Cluster& cluster) {
  return over_ranks(plan, cluster, [](Bytes so_far, const Cluster& kind) {
    const Bytes its = kind.device.memory;
    return so_far.count() == 0 ? its : std::min(so_far, its);
  });
}

}  // namespace weir
