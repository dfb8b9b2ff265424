// A program compiled for many evaluations: its operations in one fixed order as straight-line
// max-plus instructions over a few registers (one a lane, one a message in flight), because every
// start is the maximum of ends that are already known. Costs are looked up by stage and kind, so
// one compilation serves every candidate that differs in durations only. Runs of instructions that
// repeat are marked: the engine may jump over them once it has seen, in the candidate's own
// integers, that one round merely shifts what the next one reads.
//
// Start at `compile`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "costmodel/table/cost_table.hpp"
#include "plan/program/program.hpp"

namespace weir {

using Register = std::uint16_t;  // register 0 is always zero

// end:   register[to] = max(register[to], register[a], register[b]) + cost[cost]
// send:  register[edge] = max(register[edge], register[to], register[slot]) + cost[occupancy]
//        register[message] = register[edge] + cost[latency]
// copy:  register[message] = register[to]
struct Instruction {
  enum class Kind : std::uint16_t { end, end_and_send, send, copy };
  Kind kind = Kind::end;
  Register to = 0, a = 0, b = 0;
  std::uint16_t cost = 0;  // indices into a packed cost vector; 0 is always zero
  Register edge = 0, slot = 0, message = 0;
  std::uint16_t occupancy = 0, latency = 0;

  // All at once: rounds are looked for by many comparisons.
  bool operator==(const Instruction& other) const {
    return std::memcmp(this, &other, sizeof(Instruction)) == 0;
  }
};
static_assert(sizeof(Instruction) == 20);
static_assert(std::has_unique_object_representations_v<Instruction>);

// Instructions [first, first + length) occur `count` times in a row. A round reads `carried` before
// it writes them, and nothing else that changes.
struct Repeat {
  std::size_t first = 0, length = 0, count = 0;
  std::vector<Register> carried;
  std::vector<Register> written;
};

struct CompiledProgram {
  std::int32_t stages = 0;  // replicas included
  std::vector<Instruction> code;
  std::vector<Repeat> repeats;      // ascending, disjoint
  std::vector<Register> lane_ends;  // registers whose largest value at the end is the makespan
  std::int32_t registers = 1;
  [[nodiscard]] std::size_t costs() const;  // size of a packed cost vector
  [[nodiscard]] std::size_t bytes() const;  // of the code and what belongs to it
};

// Why not: skips that go directly, receives that do not follow their sends, a cycle, or more than
// 65,535 messages in flight or costs (5,041 stages).
struct NotCompiled {
  std::string reason;
};
[[nodiscard]] std::variant<CompiledProgram, NotCompiled> compile(const Program& program);

// Costs in the order that instructions name them. Precondition: packed.size() == program.costs(),
// table.stages.size() == program.stages. `stride`: distance between consecutive costs of this
// candidate in `packed` (lanes of a batch).
void pack(const CostTable& table, std::int64_t* packed, std::size_t stride = 1);

}  // namespace weir
