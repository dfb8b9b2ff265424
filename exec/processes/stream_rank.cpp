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

std::optional<StreamNorm> norm_of(const StreamGradients::Setup& setup, const GradientNorm& norm,
                                  GradientExchange& gradients) {
  if (!norm.clips()) return {};
  std::vector<StreamNorm::RankOfNorm> ranks(static_cast<std::size_t>(setup.program.shape().ranks));
  ranks[setup.rank.position()] = {setup.backend, setup.arena};
  const bool slices = setup.plan.zero > 0;
  const int places = setup.plan.tp;
  return StreamNorm({setup.program, setup.stages, norm, gradients, std::move(ranks),
                     (slices ? setup.plan.dp : 1) * places,
                     (slices ? setup.replica : 0) * places + setup.place, places, &setup.model});
}

}  // namespace

StreamRank::StreamRank(const std::vector<MessageRoute>& routes,
                       std::unique_ptr<StreamTransport> transport,
                       const StreamGradients::Setup& setup, const GradientNorm& norm,
                       const std::vector<std::int64_t>& message_bytes,
                       const MakeHandler& make_handler,
                       std::function<void(const std::function<bool()>&)> wait_until,
                       StepLauncher::Now now)
    : transport_(std::move(transport)),
      gradients_(setup, *transport_),
      norm_(norm_of(setup, norm, gradients_)),
      handler_(make_handler(gradients_)),
      launcher_(setup.program, routes,
                alone(setup.program.shape().ranks, setup.rank,
                      {setup.backend, setup.arena, handler_.get()}),
                now, {transport_.get(), &gradients_, &message_bytes, std::move(wait_until)},
                norm_ ? &*norm_ : nullptr) {}

void StreamRank::begin_step(std::uint32_t step, StepClock& clock) {
  clock_ = &clock;
  launcher_.begin_step(step);
}

ProcessRank::Step StreamRank::run_step(std::uint32_t) {
  const LaunchedStep done = launcher_.run_step(*clock_);
  if (norm_) found_ = norm_->read();
  return {done.end_ns, done.launching_ns};
}

}  // namespace weir
