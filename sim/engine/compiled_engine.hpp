// Evaluates a compiled program: the makespan of one candidate, or of many, eight at a time in the
// lanes of a vector. The times are the event engine's own, to the nanosecond.
//
// What it gains, in CPU time of whole sweeps on one thread of an Intel Xeon (2026-11-22) against
// the event engine in its place in sim/search/partitions/refine, with the same plans out: `weir
// sweep gpt2.json --cluster dgx-a100.json -K 1..8` with --global-batch-size 512 --schedule
// gpipe,1f1b,zb-h1,zb-h2 1.3x, with --global-batch-size 64 --dp 1,2 --schedule gpipe,1f1b,zb-h1
// 1.6x; none where memory leaves few partitions to try. tests/bench/compiled_bench times it alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/table/cost_table.hpp"
#include "plan/words/units.hpp"
#include "sim/engine/compiled_program.hpp"

namespace weir {

// Whether to look for rounds that only shift the next one, and to jump over as many as remain. The
// result is the same.
enum class Periodicity : std::uint8_t { jump, walk };

// Keeps the registers between evaluations: O(lanes + messages in flight), nothing per operation.
// One thread at a time.
class CompiledEngine {
 public:
  explicit CompiledEngine(const CompiledProgram& program,
                          Periodicity periodicity = Periodicity::jump);

  // Precondition of both: every table has as many stages as the program.
  [[nodiscard]] Nanoseconds makespan(const CostTable& table);
  // makespans.size() == tables.size(); candidates may be in any number.
  void makespans(std::span<const CostTable> tables, std::span<Nanoseconds> makespans);

  static constexpr std::size_t kLanes = 8;

 private:
  struct alignas(64) Lanes {
    std::int64_t of[kLanes];
  };
  const CompiledProgram& program_;
  Periodicity periodicity_;
  std::vector<std::int64_t> registers_, saved_, costs_;    // of one candidate
  std::vector<Lanes> registers_x8_, saved_x8_, costs_x8_;  // of a batch
};

}  // namespace weir
