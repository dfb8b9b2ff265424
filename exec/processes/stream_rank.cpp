// A rank of this process whose step is launched as a whole.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/stream_rank.hpp"

#include <utility>

namespace weir {
namespace {

std::vector<LocalRank> alone(std::int32_t ranks, Rank rank, const LocalRank& own) {
  std::vector<LocalRank> all(static_cast<std::size_t>(ranks));
  all[static_cast<std::size_t>(rank.value)] = own;
  return all;
}

}  // namespace

StreamRank::StreamRank(const std::vector<MessageRoute>& routes,
                       std::unique_ptr<StreamTransport> transport,
                       const StreamGradients::Setup& setup,
                       const std::vector<std::int64_t>& message_bytes, Backend& backend,
                       const MakeHandler& make_handler,
                       std::function<void(const std::function<bool()>&)> wait_until,
                       StepLauncher::Now now)
    : transport_(std::move(transport)),
      gradients_(setup, *transport_),
      handler_(make_handler(gradients_)),
      launcher_(
          setup.program, routes,
          alone(setup.program.shape().ranks, setup.rank, {&backend, setup.arena, handler_.get()}),
          now, {transport_.get(), &gradients_, &message_bytes, std::move(wait_until)}) {}

void StreamRank::begin_step(std::uint32_t step, StepClock& clock) {
  clock_ = &clock;
  launcher_.begin_step(step);
}

ProcessRank::Step StreamRank::run_step(std::uint32_t) {
  const LaunchedStep done = launcher_.run_step(*clock_);
  return {done.end_ns, done.launching_ns};
}

}  // namespace weir
