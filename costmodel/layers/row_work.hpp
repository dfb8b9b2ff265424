// What rows cost whose sequences are of several lengths (docs/theory.md 5.14): their work as shares
// of a full row's that is one sequence, and what it costs that replicas draw unlike rows.
//
// With l a sequence's length, S a row's, E the mean over sequences and b rows a micro-batch:
//   packed   S tokens; of attention's S^2 the share E[l^2] / (E[l] S): a token's sequence is a long
//            one the more often, the longer it is
//   cut      the same of a stream's window of S tokens: E[g(l)] / (E[l] S^2),
//            g = S l^2 - l^3/3 for l <= S, S^2 l - S^3/3 above
//   longest  m = max of b lengths: E[m] / S tokens and the share E[m^2] / S^2
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/words/lengths.hpp"
#include "plan/words/units.hpp"

namespace weir {

struct RowWork {
  double tokens = 1;   // computed
  double squared = 1;  // attention's, of S^2
  double useful = 1;   // tokens that are no padding, and of S^2 what is between those
  double useful_squared = 1;
};
// The mean of a row in a micro-batch of so many.
[[nodiscard]] RowWork mean_row(const SequenceLengths& lengths, std::int64_t seq_length, int batch);

// Standard deviation of a row's share of S^2, of packed and cut rows: S / E[l] sequences of a
// stream fill a row (the central limit theorem of renewal rewards: Smith, Proceedings of the Royal
// Society A 232, 1955), so that of the sum of squares it is
// sqrt(S / E[l] Var(l^2 - l E[l^2] / E[l])) and no more than that of rows that are one sequence or
// next to nothing.
[[nodiscard]] double row_spread(const SequenceLengths& lengths, std::int64_t seq_length);

// The mean of the largest of n standard normal numbers, 0 for n = 1: 0.5642 of 2, 1.4236 of 8.
[[nodiscard]] double largest_of_normal(int n);

// Replicas that wait for each other.
struct UnlikeReplicas {
  int batch = 1;
  int microbatches = 1;
  int each_step = 1;        // until a step's end
  int each_microbatch = 1;  // within each micro-batch: where they share weights or experts
};
// A micro-batch's time of a stage where its rows are full, and one sequence each.
struct MicrobatchTime {
  Seconds linear{0};   // grows with tokens
  Seconds squared{0};  // with their squares
  void add(const MicrobatchTime& other, double factor = 1) {
    linear += other.linear * factor;
    squared += other.squared * factor;
  }
};
// By how much the slowest replica's micro-batches of a step take longer than the mean's.
[[nodiscard]] Seconds imbalance(const SequenceLengths& lengths, std::int64_t seq_length,
                                const MicrobatchTime& time, const UnlikeReplicas& replicas);

}  // namespace weir
