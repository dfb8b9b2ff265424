// Memory as a timeline, from the same program the engines run and the same tensors the executor
// allocates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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

// What of one step changes memory, rank by rank and in the order of time: the same whatever a stack
// keeps of the layers. None: between steps.
class MemoryEvents {
 public:
  // Of one time: ends come first and starts last. A lane's actions of no length lie between the one
  // that ends then and the one that starts: each is over before the next begins, or it would take
  // that one's place and its memory would be forgotten.
  enum class Phase : std::uint8_t { ends, sends, at_once, starts };
  struct Event {
    OperationId id;
    Phase phase;
  };

  // When each operation starts and ends; where operations of different lanes meet, their times
  // decide the order.
  MemoryEvents(const Program& program, const PerOperation<std::int64_t>& start_ns,
               const PerOperation<std::int64_t>& end_ns);
  // Of one step's spans ordered by operation, predicted or measured.
  MemoryEvents(const Program& program, IndexedView<OperationId, const Span> spans);

  [[nodiscard]] std::span<const Event> of(Rank rank) const {
    return by_rank_.empty() ? std::span<const Event>() : by_rank_[rank];
  }

 private:
  Indexed<Rank, std::vector<Event>> by_rank_;
};

// Peak per rank, on one of its devices, of one step in steady state (optimizer state exists).
// `scratch`: library scratch memory per rank, held throughout; empty: none. No events or spans:
// what is held between steps.
[[nodiscard]] std::vector<RankMemory> memory_peaks(const ResolvedPlan& loaded,
                                                   const Program& program,
                                                   const MemoryEvents& events,
                                                   std::span<const Bytes> scratch,
                                                   const MemoryRules& rules = {});
[[nodiscard]] std::vector<RankMemory> memory_peaks(const ResolvedPlan& loaded,
                                                   const Program& program,
                                                   IndexedView<OperationId, const Span> spans,
                                                   std::span<const Bytes> scratch,
                                                   const MemoryRules& rules = {});

// The same as counters for a trace of those spans: "memory" and "memory/<kind>" in bytes, "in
// flight" as a count.
[[nodiscard]] std::vector<Counter> memory_counters(const ResolvedPlan& loaded,
                                                   const Program& program,
                                                   IndexedView<OperationId, const Span> spans,
                                                   std::span<const Bytes> scratch,
                                                   const MemoryRules& rules = {});

}  // namespace weir
