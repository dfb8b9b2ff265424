// How dynamic context parallelism deals a step's sequences to devices: in rounds, each of which
// ends when all devices have ended it, to teams of devices that compute their sequences one after
// the other.
//
// The rules are Megatron-LM's (d98e8a64ddf3, core/pipeline_parallel/hybrid_cp_schedule.py,
// BalancedCPScheduler), and so are the sequences that share a team, their order and the rounds:
//   - A sequence of l tokens asks for g devices (devices_of_sequence) and is taken for l^2 / g of
//     work on each.
//   - The longest come first. They are cut into runs of like work, as many as there are numbers of
//     devices; the first run whose next sequence finds a team of its size, or as many free devices,
//     gives it to a new team, else to the least loaded one of that size.
//   - Once a sequence asked for fewer devices than the round's first, the round ends where the
//     least loaded device has 95 % of the fullest one's work, or nothing more fits.
//   - The last sequences of the fullest team wait for the next round while that narrows the
//     difference. Where devices are left over, the first of the smallest teams is doubled until
//     none is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace weir {

struct SequenceTeam {
  int devices = 1;
  std::vector<int> lengths;  // tokens of each sequence, in the order of their computing
};
using SequenceRound = std::vector<SequenceTeam>;  // all devices, in their order

// Preconditions: `devices` is a power of two, `most` above 0, and no sequence asks for more devices
// than there are.
[[nodiscard]] std::vector<SequenceRound> sequence_rounds(std::vector<int> lengths, int most,
                                                         int devices);

}  // namespace weir
