// One counter a stage: for how many steps its gradients have been whole.
// SPDX-License-Identifier: Apache-2.0
#include "exec/threads/gradient_barrier.hpp"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

namespace weir {

GradientBarrier::GradientBarrier(const Program& program, const Stages& stages,
                                 GradientCopies copies, bool spin)
    : program_(program),
      stages_(stages),
      copies_(std::move(copies)),
      spin_(spin),
      last_gradient_(last_gradients(program)),
      opened_(std::make_unique<std::atomic<std::uint32_t>[]>(program.shape().total_stages())) {}

void GradientBarrier::ended(OperationId id, std::uint32_t step) {
  const std::int32_t stage = program_.op(id).action.stage.value;
  if (last_gradient_[stage] != id || stopped_.load()) return;
  // Release: the gradients that this thread wrote are there for who reads the number with acquire.
  opened_[stage].store(step + 1, std::memory_order_release);
  if (!spin_) opened_[stage].notify_all();
}

void GradientBarrier::await_stage(std::int32_t stage, std::uint32_t step) {
  auto& opened = opened_[stage];
  for (;;) {
    const std::uint32_t seen = opened.load(std::memory_order_acquire);
    if (stopped_.load()) throw Transport::Stopped{};
    if (seen > step) return;
    if (spin_) {
      std::this_thread::yield();
    } else {
      opened.wait(seen, std::memory_order_acquire);
    }
  }
}

void GradientBarrier::await(OperationId optimizer, std::uint32_t step, StepClock& clock) {
  const Stage own = program_.op(optimizer).action.stage;
  for (const Dependency& reduce : program_.predecessors(optimizer)) {
    std::int64_t ready = 0;
    for (const Dependency& gradient : program_.predecessors(reduce.before)) {
      await_stage(program_.op(gradient.before).action.stage.value, step);
      // Written before `opened_` was stored, by the thread that ended it.
      ready = std::max(ready, clock.end_ns[gradient.before.position()]);
    }
    // Another copy's reduction is written by the rank that holds it: one writer an entry.
    if (program_.op(reduce.before).action.stage != own) continue;
    clock.start_ns[reduce.before.position()] = ready;
    clock.end_ns[reduce.before.position()] = ready;
  }
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
}

}  // namespace weir
