// Failures and checkpoints: how often to save, and what part of the time then trains. Failures are
// exponential, any time between them alike.
//
//   useful work tau | checkpoint C | useful work tau | checkpoint C |  x  D | R | useful work ...
//                                                                      |
//              failure: downtime D, then restart R from the last checkpoint; R may itself fail, D
//              cannot
//
// Legend: mu mean time between failures of the whole job, lambda = 1 / mu. All of Herault and
// Robert (editors), "Fault-Tolerance Techniques for High-Performance Computing", Springer 2015,
// chapter 1, unless said otherwise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/words/units.hpp"

namespace weir {

struct Reliability {
  Seconds mtbf{0};        // mu > 0
  Seconds checkpoint{0};  // C: how long training stands still for one
  Seconds restart{0};     // R: until training goes on, from the last checkpoint
  Seconds downtime{0};    // D: until the restart can begin (detection, a spare)
};

// n devices in series, each failing on its own: mu / n.
[[nodiscard]] Seconds mtbf_of_all(Seconds mtbf_of_one, std::int64_t devices);

// Expected time until tau of useful work and its checkpoint are done: e^(lambda R) (mu + D)
// (e^(lambda (tau + C)) - 1).
[[nodiscard]] Seconds expected_segment(Seconds useful, const Reliability& reliability);
// tau / expected_segment: the part of the time that trains.
[[nodiscard]] double goodput(Seconds useful, const Reliability& reliability);

// Young, CACM 17(9), 1974: sqrt(2 C mu).
[[nodiscard]] Seconds young_interval(const Reliability& reliability);
// Daly, FGCS 22(3), 2006, equation 37: sqrt(2 C mu) (1 + sqrt(C / (2 mu)) / 3 + C / (2 mu) / 9) - C
// for C < 2 mu, else mu.
[[nodiscard]] Seconds daly_interval(const Reliability& reliability);
// The tau of the highest goodput: x = lambda tau solves x + e^-(x + lambda C) = 1. It depends on
// neither R nor D; 0 where checkpoints are free.
[[nodiscard]] Seconds best_interval(const Reliability& reliability);

struct CheckpointPlan {
  std::int64_t steps = 1;  // between checkpoints, which stand at step ends
  Seconds interval{0};     // useful work between two
  double goodput = 0;
};
// Goodput rises to the best interval and falls after it, so the best number of steps is next to it
// on either side. Precondition: step > 0.
[[nodiscard]] CheckpointPlan best_checkpoints(Seconds step, const Reliability& reliability);

}  // namespace weir
