// One clock for all ranks, and transfers told from waiting.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "traces/kineto/rank_steps.hpp"
#include "traces/trace.hpp"

namespace weir {

struct Alignment {
  // [step][rank]: to be added to a rank's own times (base included) to get those of rank 0's clock.
  // A step has offsets of its own, so that clocks may drift.
  std::vector<std::vector<Nanoseconds>> offset;
  Nanoseconds error{
      0};  // median over messages of |end of the send - end of the receive| once aligned
};

// Both ends of a message finish within microseconds of each other, whenever they started to wait:
// the offset of two neighbours is the median difference of the ends of their messages, and the
// others follow along the pipeline. gloo's marks end when somebody has waited, so that ends say
// nothing: there a clock is moved only as far as no message ends before it was sent.
[[nodiscard]] Alignment align_clocks(const Program& program, const std::vector<RankSteps>& ranks);

// The measured trace. A transfer starts when the later of its two kernels starts: before that, one
// end waits for the other; over gloo it ends with the earlier of its two marks, which may still be
// later than it arrived. A step lasts until the next one starts or, for the last, until its last
// operation ends.
[[nodiscard]] Trace trace_of_ranks(const Program& program, const std::vector<RankSteps>& ranks,
                                   const Alignment& alignment);

}  // namespace weir
