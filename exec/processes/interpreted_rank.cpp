// A rank of this process whose actions are run one after the other.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/interpreted_rank.hpp"

#include <utility>

namespace weir {

InterpretedRank::InterpretedRank(const std::vector<MessageRoute>& routes,
                                 std::unique_ptr<ProcessTransport> transport,
                                 ProcessGradients::Setup setup, Processes& processes,
                                 Activity& activity, const MakeHandler& make_handler)
    : program_(setup.program),
      routes_(routes),
      rank_(setup.rank),
      now_(setup.now),
      transport_(std::move(transport)),
      gradients_(std::move(setup), processes),
      handler_(make_handler(gradients_)),
      activity_(activity) {}

void InterpretedRank::begin_step(std::uint32_t step, StepClock& clock) {
  clock_ = &clock;
  handler_->begin_step(step);
  transport_->begin_step(clock);
}

ProcessRank::Step InterpretedRank::run_step(std::uint32_t step) {
  StepContext context{program_, routes_, *transport_, gradients_, now_, *clock_, activity_};
  interpret(context, rank_, *handler_, step);
  return {now_(), {}};
}

void InterpretedRank::end_step() {
  transport_->end_step();
  gradients_.end_step();
}

}  // namespace weir
