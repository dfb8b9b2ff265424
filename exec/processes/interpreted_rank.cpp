// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/interpreted_rank.hpp"

#include <utility>

namespace weir {

WalkingRank::WalkingRank(const std::vector<Mail>& mail, std::unique_ptr<ProcessTransport> transport,
                         ProcessGradients::Setup setup, Processes& processes,
                         const MakeWork& make_work)
    : program_(setup.program),
      mail_(mail),
      rank_(setup.rank),
      now_(setup.now),
      transport_(std::move(transport)),
      gradients_(std::move(setup), processes),
      work_(make_work(gradients_)) {}

void WalkingRank::begin_step(std::uint32_t step, StepClock& clock) {
  clock_ = &clock;
  work_->begin_step(step);
  transport_->begin_step(clock);
}

ProcessRank::Step WalkingRank::run_step(std::uint32_t step) {
  StepContext context{program_, mail_, *transport_, gradients_, now_, *clock_};
  interpret(context, rank_, *work_, step);
  return {now_(), {}};
}

void WalkingRank::end_step() {
  transport_->end_step();
  gradients_.end_step();
}

}  // namespace weir
