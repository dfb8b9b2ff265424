// A mean step of sequences that are dealt to devices by their lengths (docs/theory.md 5.14): which
// passes a device has, and how long it waits for the others where rounds end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>

#include "plan/words/lengths.hpp"
#include "plan/words/units.hpp"

namespace weir {

// Sequences whose times are known: others lie between two of as many devices.
struct SequenceKind {
  std::int64_t tokens = 0;  // of the whole sequence
  int devices = 1;
  auto operator<=>(const SequenceKind&) const = default;
};

struct SequencesOfAStep {
  SequenceLengths lengths;       // with dynamic_cp, of packed rows
  std::int64_t tokens = 0;       // of all of them, on average
  int devices = 1;               // that they are dealt to, a power of two
  std::int64_t multiple_of = 1;  // tokens of a device: what layers divide further
};

struct DealtStep {
  // How often a device computes such a sequence, on average.
  std::map<SequenceKind, double> passes;
  Seconds busy{0};   // of a device, on average: their times, added up
  Seconds waits{0};  // of a device, on average, for the fullest one of each round
};

// The mean of steps that are drawn, from a fixed seed: as many sequences as have so many tokens on
// average, their lengths independent of each other, dealt by sequence_rounds. `takes` is asked for
// the time of each kind once; between two kinds a sequence takes what lies on the line between
// theirs, and one that is shorter than all of them what the shortest takes, which launches bound.
[[nodiscard]] DealtStep dealt_step(const SequencesOfAStep& step,
                                   const std::function<Seconds(const SequenceKind&)>& takes);

}  // namespace weir
