// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/stream_rank.hpp"

#include <utility>

namespace weir {
namespace {

std::vector<LaunchedRank> alone(std::int32_t ranks, Rank rank, const LaunchedRank& own) {
  std::vector<LaunchedRank> all(static_cast<std::size_t>(ranks));
  all[static_cast<std::size_t>(rank.value)] = own;
  return all;
}

}  // namespace

LaunchingRank::LaunchingRank(const std::vector<Mail>& mail,
                             std::unique_ptr<LaunchedTransport> transport,
                             const LaunchedGradients::Setup& setup,
                             const std::vector<std::int64_t>& message_bytes, Backend& backend,
                             const MakeWork& make_work,
                             std::function<void(const std::function<bool()>&)> wait_until,
                             StepLauncher::Now now)
    : transport_(std::move(transport)),
      gradients_(setup, *transport_),
      work_(make_work(gradients_)),
      launcher_(setup.program, mail,
                alone(setup.program.shape.ranks, setup.rank, {&backend, setup.arena, work_.get()}),
                now, {transport_.get(), &gradients_, &message_bytes, std::move(wait_until)}) {}

void LaunchingRank::begin_step(std::uint32_t step, StepClock& clock) {
  clock_ = &clock;
  launcher_.begin_step(step);
}

ProcessRank::Step LaunchingRank::run_step(std::uint32_t) {
  const LaunchedStep done = launcher_.run_step(*clock_);
  return {done.end_ns, done.launching_ns};
}

}  // namespace weir
