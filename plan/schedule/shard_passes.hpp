// A vocabulary that is divided over the ranks of a pipeline (Yeung et al., "Balancing Pipeline
// Parallelism with Vocabulary Parallelism", arXiv 2411.05288, algorithms 1 and 2): rank k has the
// k-th part of the embedding's and of the head's rows. It is a stage of its own, K + k, that takes
// the last stage's output. Its F is the paper's pass S (logits of the shard, their maximum and
// sum), its B the pass T (the gradients of the input and of the shard's rows). What waits for what,
// of micro-batch m:
//
//   F of K-1 -> BROADCAST -> S of every rank -> ALL_REDUCE_F -> T of every rank
//     one barrier (algorithm 2)   ALL_REDUCE_F -> B of K-1: S has made the input's gradient already
//     two barriers (algorithm 1)  T of every rank -> ALL_REDUCE_B -> B of K-1
//     synchronous (interlaced)    as two, and a rank's next action waits for ALL_REDUCE_B as well
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/schedule/schedule.hpp"
#include "plan/words/indexed.hpp"

namespace weir {

// What B of the last stage waits for: the shards' F, or their backwards.
[[nodiscard]] constexpr bool waits_for_forwards(Vocabulary vocabulary) {
  return vocabulary == Vocabulary::one_barrier;
}

// Which of them have been done, in a walk over a schedule.
class ShardPasses {
 public:
  // The shape outlives it.
  explicit ShardPasses(const ScheduleShape& shape);

  // Whether what an action takes of a shard, or a shard of others, is there; true of all others.
  [[nodiscard]] bool ready(const Action& action) const;
  // The action has been done. Whether others, of any rank, may now be ready.
  bool note(const Action& action);

 private:
  const ScheduleShape& shape_;
  Indexed<Microbatch, std::int32_t> outputs_, forwards_, backwards_;  // so many are done
};

}  // namespace weir
