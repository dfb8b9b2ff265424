// Memory as a timeline, from the same program the engines run and the same tensors the executor
// allocates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "costmodel/memory/memory_kind.hpp"
#include "costmodel/memory/memory_rules.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/program/program.hpp"
#include "traces/memory_count.hpp"
#include "traces/trace.hpp"

namespace weir {

struct RankMemory {
  Bytes peak{0};
  Bytes upper{0};                // the most that is expected: one peak in twenty is above
  Bytes least{0};                // with nothing pending and nothing wasted
  PerMemoryKind<Bytes> at_peak;  // parts of the peak; they sum to it
  Bytes process{0};              // of the peak: the process's own, beside its allocator

  // The peak as a tool counts it.
  [[nodiscard]] Bytes peak_as(MemoryCount count) const;
};

// Peak per rank, on one of its devices, of one step in steady state (optimizer state exists).
// `spans` are one step's spans ordered by operation (predicted or measured); where operations of
// different lanes meet, their times decide the order. `scratch`: library scratch memory per rank,
// held throughout; empty: none. No spans: what is held between steps.
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
