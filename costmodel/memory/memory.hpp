// Memory as a timeline, from the same program the engines run and the same tensors the executor
// allocates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <vector>

#include "costmodel/memory/memory_kind.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/program/program.hpp"
#include "traces/trace.hpp"

namespace weir {

struct RankMemory {
  Bytes peak{0};
  Bytes upper{0};  // the most that the stack's allocator may have reserved by then
  Bytes least{0};  // with nothing pending and nothing wasted
  std::array<Bytes, kMemoryKinds> at_peak{};  // parts of the peak; they sum to it
};

// What device and software add to the tensors themselves.
struct MemoryRules {
  Allocator allocator = Allocator::arena;
  Bytes process_overhead{0};
  Stack stack = {};
  const ModelPart* part = nullptr;  // as the stack keeps it; none: the plan's own
};
[[nodiscard]] MemoryRules memory_rules(const Cluster& cluster, const ModelPart& part);

// Peak per rank, on one of its devices, of one step in steady state (optimizer state exists).
// `spans` are one step's spans ordered by operation (predicted or measured); where operations of
// different lanes meet, their times decide the order. `scratch`: library scratch memory per rank,
// held throughout; empty: none.
[[nodiscard]] std::vector<RankMemory> memory_peaks(const ResolvedPlan& loaded,
                                                   const Program& program,
                                                   IndexedView<OperationId, const Span> spans,
                                                   std::span<const Bytes> scratch,
                                                   const MemoryRules& rules = {});

// The same as counters for a trace: "memory" and "memory/<kind>" in bytes, "in flight" as a count.
[[nodiscard]] std::vector<Counter> memory_counters(const ResolvedPlan& loaded,
                                                   const Program& program,
                                                   IndexedView<OperationId, const Span> spans,
                                                   std::span<const Bytes> scratch,
                                                   const MemoryRules& rules = {});

}  // namespace weir
