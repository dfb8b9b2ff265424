// One counter a stage: for how many steps its gradients have been whole; and one a rank: for how
// many its squares have been made.
// SPDX-License-Identifier: Apache-2.0
#include "exec/threads/gradient_barrier.hpp"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

namespace weir {

GradientBarrier::GradientBarrier(Setup setup)
    : program_(setup.program),
      stages_(setup.stages),
      copies_(std::move(setup.copies)),
      spin_(setup.spin),
      now_(setup.now),
      last_gradient_(last_gradients(program_)),
      norm_(std::move(setup.norm)),
      opened_(std::make_unique<Counter[]>(program_.shape().total_stages())),
      squared_(std::make_unique<Counter[]>(program_.shape().ranks)) {}

void GradientBarrier::count(Counter& counter, std::uint32_t step) {
  if (stopped_.load()) return;
  // Release: what this thread wrote is there for who reads the number with acquire.
  counter.store(step + 1, std::memory_order_release);
  if (!spin_) counter.notify_all();
}

void GradientBarrier::restart() {
  const auto begin_anew = [this](Counter& counter) {
    // A run that was stopped stays so: its counters are what nobody waits for any more.
    if (!stopped_.load()) counter.store(0);
  };
  for (std::int32_t stage = 0; stage < program_.shape().total_stages(); ++stage)
    begin_anew(opened_[stage]);
  for (const Rank rank : program_.ranks()) begin_anew(squared_[rank.position()]);
}

void GradientBarrier::ended(OperationId id, std::uint32_t step) {
  const std::int32_t stage = program_.op(id).action.stage.value;
  if (last_gradient_[stage] == id) count(opened_[stage], step);
}

void GradientBarrier::await_count(Counter& counter, std::uint32_t step) {
  for (;;) {
    const std::uint32_t seen = counter.load(std::memory_order_acquire);
    if (stopped_.load()) throw Transport::Stopped{};
    if (seen > step) return;
    if (spin_) {
      std::this_thread::yield();
    } else {
      counter.wait(seen, std::memory_order_acquire);
    }
  }
}

std::int64_t GradientBarrier::await_gradients(OperationId reduce, std::uint32_t step,
                                              const StepClock& clock) {
  std::int64_t ready = 0;
  for (const Dependency& gradient : program_.predecessors(reduce)) {
    await_count(opened_[program_.op(gradient.before).action.stage.value], step);
    // Written before `opened_` was stored, by the thread that ended it.
    ready = std::max(ready, clock.end_ns[gradient.before.position()]);
  }
  return ready;
}

void GradientBarrier::await(OperationId optimizer, std::uint32_t step, StepClock& clock) {
  if (norm_.clips() && !stages_.empty()) {
    await_norm(program_.rank_of(optimizer), step, clock);
    return;
  }
  const Stage own = program_.op(optimizer).action.stage;
  for (const Dependency& reduce : program_.predecessors(optimizer)) {
    const std::int64_t ready = await_gradients(reduce.before, step, clock);
    // Another copy's reduction is written by the rank that holds it: one writer an entry.
    if (program_.op(reduce.before).action.stage != own) continue;
    clock.start_ns[reduce.before.position()] = ready;
    clock.end_ns[reduce.before.position()] = ready;
  }
}

// Before the rank's first optimizer of the step: another rank's may need the squares of all of its
// stages.
void GradientBarrier::await_norm(Rank rank, std::uint32_t step, StepClock& clock) {
  Counter& own = squared_[rank.position()];
  if (own.load(std::memory_order_relaxed) <= step) {
    for (const Lane& lane : program_.lanes()) {
      if (lane.rank != rank || lane.kind != LaneKind::reduce) continue;
      for (const OperationId reduce : lane.operations()) make_squares(reduce, step, clock);
    }
    count(own, step);
  }
  for (const Rank other : program_.ranks()) await_count(squared_[other.position()], step);
}

void GradientBarrier::make_squares(OperationId reduce, std::uint32_t step, StepClock& clock) {
  const Stage stage = program_.op(reduce).action.stage;
  const std::int64_t ready = await_gradients(reduce, step, clock);
  const StageWorker& worker = *stages_[stage.position()];
  clock.start_ns[reduce.position()] = std::max(ready, now_());
  norm_.set(stage, [&](int parameter) {
    return worker.sum_of_squares(parameter, copies(stage, static_cast<std::size_t>(parameter)));
  });
  clock.end_ns[reduce.position()] = now_();
}

std::vector<Tensor> GradientBarrier::copies(Stage stage, std::size_t parameter) {
  std::vector<Tensor> gradients;
  for (const GradientUse& use : copies_[stage.position()][parameter]) {
    gradients.push_back(stages_[use.stage.position()]->parameters()[use.parameter].gradient);
  }
  return gradients;
}

void GradientBarrier::stop() {
  // The flag first: whoever the numbers below wake must find it set.
  stopped_.store(true);
  for (std::int32_t stage = 0; stage < program_.shape().total_stages(); ++stage) {
    opened_[stage].store(std::numeric_limits<std::uint32_t>::max());
    opened_[stage].notify_all();
  }
  for (const Rank rank : program_.ranks()) {
    squared_[rank.position()].store(std::numeric_limits<std::uint32_t>::max());
    squared_[rank.position()].notify_all();
  }
}

}  // namespace weir
