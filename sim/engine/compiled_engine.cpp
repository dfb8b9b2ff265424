// Walks the instructions, for one candidate or for eight in the lanes of a vector, and jumps over
// rounds that only shift the next.
// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/compiled_engine.hpp"

#include <algorithm>

#include "plan/words/multiversion.hpp"

namespace weir {
namespace {

using Four = std::int64_t __attribute__((vector_size(32)));  // aliases its elements

// In two parts, for AVX2: of 64 bytes at once, which it does not have, GCC would choose the larger
// number by number.
struct Eight {
  Four low, high;

  [[gnu::always_inline]] Eight& operator+=(const Eight& other) {
    low += other.low;
    high += other.high;
    return *this;
  }
  [[gnu::always_inline]] Eight& operator-=(const Eight& other) {
    low -= other.low;
    high -= other.high;
    return *this;
  }
  [[gnu::always_inline]] Eight& operator*=(std::int64_t factor) {
    low *= factor;
    high *= factor;
    return *this;
  }
};
static_assert(sizeof(Eight) == CompiledEngine::kLanes * sizeof(std::int64_t));

[[gnu::always_inline]] inline bool all_zero(std::int64_t value) { return value == 0; }
[[gnu::always_inline]] inline bool all_zero(const Eight& value) {
  const Four any = value.low | value.high;
  return (any[0] | any[1] | any[2] | any[3]) == 0;
}

[[gnu::always_inline]] inline void wait_for(std::int64_t& now, const std::int64_t& other) {
  now = now > other ? now : other;
}
[[gnu::always_inline]] inline void wait_for(Eight& now, const Eight& other) {
  now.low = now.low > other.low ? now.low : other.low;
  now.high = now.high > other.high ? now.high : other.high;
}

template <class Value>
struct Run {
  const CompiledProgram& program;
  Value* registers;
  Value* saved;  // as many
  const Value* costs;

  [[gnu::always_inline]] void walk(std::size_t first, std::size_t last) const {
    const Instruction* const code = program.code.data();
    for (std::size_t i = first; i < last; ++i) {
      const Instruction& in = code[i];
      Value now = registers[in.to];
      // Kind lists these two first: an end, alone or with its message. What follows is the
      // message's part.
      if (in.kind <= Instruction::Kind::end_and_send) {
        wait_for(now, registers[in.a]);
        // Register 0 is never written and stays 0, so it stands for nothing to wait for.
        if (in.b != 0) wait_for(now, registers[in.b]);
        now += costs[in.cost];
        registers[in.to] = now;
        if (in.kind == Instruction::Kind::end) continue;
      } else if (in.kind == Instruction::Kind::copy) {
        registers[in.message] = now;
        continue;
      }
      // A message waits for its edge and for a slot, keeps the edge busy for its occupancy and
      // arrives its latency later.
      wait_for(now, registers[in.edge]);
      if (in.slot != 0) wait_for(now, registers[in.slot]);
      now += costs[in.occupancy];
      registers[in.edge] = now;
      now += costs[in.latency];
      registers[in.message] = now;
    }
  }

  // Brent's search for a cycle: compare each round with a saved one, and save anew after 1, 2, 4,
  // ... rounds. If what a round reads is what it read `apart` rounds ago plus one shift for all,
  // every later round repeats with that shift: maxima and sums commute with it.
  [[gnu::always_inline]] void walk_rounds(const Repeat& repeat) const {
    std::size_t saved_at = 0, window = 1, done = 0;
    save(repeat);
    while (done < repeat.count) {
      walk(repeat.first, repeat.first + repeat.length);  // every round has the same instructions
      ++done;
      const std::size_t apart = done - saved_at;
      Value shift = registers[repeat.carried[0]];
      shift -= saved[repeat.carried[0]];
      if (shifted(repeat, shift)) {
        // Whole cycles are jumped over; what is left of the rounds is walked.
        const std::size_t jumps = (repeat.count - done) / apart;
        shift *= static_cast<std::int64_t>(jumps);
        // All that a round writes, not only what the next one reads: code behind the rounds may
        // read it.
        for (const Register r : repeat.written) registers[r] += shift;
        done += jumps * apart;
        for (; done < repeat.count; ++done) walk(repeat.first, repeat.first + repeat.length);
        return;
      }
      if (apart == window) {
        save(repeat);
        saved_at = done;
        window *= 2;
      }
    }
  }
  [[gnu::always_inline]] void save(const Repeat& repeat) const {
    for (const Register r : repeat.carried) saved[r] = registers[r];
  }
  [[gnu::always_inline]] bool shifted(const Repeat& repeat, const Value& shift) const {
    for (const Register r : repeat.carried) {
      Value differs = registers[r];
      differs -= saved[r];
      differs -= shift;
      if (!all_zero(differs)) return false;
    }
    return true;
  }

  [[gnu::always_inline]] void all(Periodicity periodicity) const {
    std::size_t now = 0;
    if (periodicity == Periodicity::jump) {
      for (const Repeat& repeat : program.repeats) {
        walk(now, repeat.first);
        walk_rounds(repeat);
        now = repeat.first + repeat.length * repeat.count;
      }
    }
    walk(now, program.code.size());
  }
};

WEIR_MULTIVERSION void run_eight(const CompiledProgram* program, std::int64_t* registers,
                                 std::int64_t* saved, const std::int64_t* costs,
                                 Periodicity periodicity) {
  const Run<Eight> run{*program, reinterpret_cast<Eight*>(registers),
                       reinterpret_cast<Eight*>(saved), reinterpret_cast<const Eight*>(costs)};
  run.all(periodicity);
}

}  // namespace

CompiledEngine::CompiledEngine(const CompiledProgram& program, Periodicity periodicity)
    : program_(program), periodicity_(periodicity) {}

Nanoseconds CompiledEngine::makespan(const CostTable& table) {
  costs_.resize(std::max(costs_.size(), program_.costs()));
  registers_.assign(std::max(registers_.size(), static_cast<std::size_t>(program_.registers)), 0);
  saved_.resize(registers_.size());
  pack(table, costs_.data());
  Run<std::int64_t>{program_, registers_.data(), saved_.data(), costs_.data()}.all(periodicity_);
  std::int64_t end = 0;
  // A step ends with the last of its compute and reduce lanes.
  for (const Register r : program_.lane_ends) end = std::max(end, registers_[r]);
  return Nanoseconds(end);
}

void CompiledEngine::makespans(std::span<const CostTable> tables,
                               std::span<Nanoseconds> makespans) {
  costs_x8_.resize(program_.costs());
  registers_x8_.resize(static_cast<std::size_t>(program_.registers));
  saved_x8_.resize(registers_x8_.size());
  for (std::size_t first = 0; first < tables.size(); first += kLanes) {
    const std::size_t count = std::min(kLanes, tables.size() - first);
    for (std::size_t lane = 0; lane < kLanes;
         ++lane)  // the last lanes of a short batch repeat its first candidate
      pack(tables[first + (lane < count ? lane : 0)], &costs_x8_[0].of[lane], kLanes);
    std::ranges::fill(registers_x8_, Lanes{});
    run_eight(&program_, registers_x8_[0].of, saved_x8_[0].of, costs_x8_[0].of, periodicity_);
    for (std::size_t lane = 0; lane < count; ++lane) {
      std::int64_t end = 0;
      for (const Register r : program_.lane_ends) end = std::max(end, registers_x8_[r].of[lane]);
      makespans[first + lane] = Nanoseconds(end);
    }
  }
}

}  // namespace weir
