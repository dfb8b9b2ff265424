// A run in one process: one worker thread a rank and a barrier at each end of a step, or, where
// devices only launch, one thread for all ranks (exec/streams/step_launcher); and the clocks of all
// operations turned into a trace. What a rank does with an action is exec/rank/trainer's; ranks
// as processes are exec/processes/process_run's.
// SPDX-License-Identifier: Apache-2.0
#include "exec/run/run.hpp"

#include <fmt/format.h>

#include <atomic>
#include <barrier>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "exec/device/cores.hpp"
#include "exec/rank/interpreter.hpp"
#include "exec/rank/rank_device.hpp"
#include "exec/rank/step_trace.hpp"
#include "exec/rank/trainer.hpp"
#include "exec/run/run_parts.hpp"
#include "exec/streams/step_launcher.hpp"
#include "exec/threads/gradient_barrier.hpp"
#include "exec/threads/thread_transport.hpp"
#include "exec/training/batches.hpp"
#include "exec/training/parameter_hash.hpp"
#include "exec/training/trainable.hpp"
#include "plan/words/error.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

// The moment the last thread arrived at a barrier, taken by that thread before any is released:
// when a step begins and ends, whichever thread the machine lets run first.
struct Stamp {
  std::int64_t* at_ns;
  void operator()() noexcept { *at_ns = now_ns(); }
};

void require_recordable_kernels(const RunOptions& options) {
  if (!options.kernels) return;
  if (options.backend != BackendKind::cuda) {
    throw UsageError(fmt::format("kernels: what a GPU runs is recorded; the {} backend has no GPU",
                                 to_string(options.backend)));
  }
  if (options.graphs) {
    throw UsageError(
        "kernels and graphs exclude each other: a graph is launched as one, so none of its "
        "kernels is known by the "
        "action it belongs to");
  }
  if (!options.trace)
    throw UsageError("kernels are recorded for the actions of a trace: it cannot be left out");
}

class ThreadRun {
 public:
  ThreadRun(const ResolvedPlan& loaded, const RunOptions& options, const Backends& backends)
      : loaded_(loaded),
        options_(options),
        program_(loaded.program),
        routes_(route_messages(program_)) {
    require_recordable_kernels(options);
    const auto ranks = program_.shape().ranks;
    result_.oversubscribed = static_cast<int>(ranks) > available_cores();
    spin_ = !result_.oversubscribed && options.backend != BackendKind::synthetic;
    clock_.resize(program_.size());
    if (options.backend == BackendKind::synthetic) {
      result_.oversubscribed = false;  // waits need no core
      require_durations(program_, options);
    } else {
      open_devices(backends);
    }
    if (options.graphs && !has_streams()) {
      throw UsageError(fmt::format("graphs repeat launches on a GPU; the {} backend makes none",
                                   to_string(options.backend)));
    }
    std::vector<Arena*> arenas;
    for (auto& device : devices_) arenas.push_back(&device->arena());
    transport_ = std::make_unique<ThreadTransport>(program_, arenas, now_ns, spin_);
    gradients_ = std::make_unique<GradientBarrier>(
        program_, training_ ? training_->stages : none_,
        training_ ? gradient_copies(loaded) : GradientCopies{}, spin_);
    context_ = std::make_unique<StepContext>(
        StepContext{program_, routes_, *transport_, *gradients_, now_ns, clock_});
  }

  RunResult execute() {
    if (has_streams()) {
      launch_steps();
    } else {
      thread_steps();
    }
    result_.step_time = median_step(result_.steps, options_.warmup_steps);
    if (training_) result_.parameters_sha256 = hash();
    for (const auto& device : devices_) {
      result_.peak_memory.push_back(device->arena().peak());
      result_.scratch.push_back(Bytes(device->backend().scratch_bytes()));
      if (auto use = device->backend().device_use()) result_.devices.push_back(std::move(*use));
    }
    result_.trace.origin = TraceOrigin::measured;
    result_.trace.ranks = program_.shape().ranks;
    return std::move(result_);
  }

 private:
  // Ranks whose backends only launch: one thread launches for all of them.
  [[nodiscard]] bool has_streams() const {
    return !devices_.empty() && devices_.front()->backend().stream() != nullptr;
  }

  void launch_steps() {
    result_.oversubscribed = false;  // one thread, whatever K is
    std::vector<std::unique_ptr<ActionHandler>> handlers;
    std::vector<LocalRank> ranks;
    for (std::int32_t rank = 0; rank < program_.shape().ranks; ++rank) {
      handlers.push_back(prepare(rank));
      ranks.push_back(
          {&devices_[rank]->backend(), &devices_[rank]->arena(), handlers.back().get()});
    }
    StepLauncher launcher(program_, routes_, std::move(ranks), now_ns);
    blocks_ = blocks_taken();
    KernelWatch* watch = devices_.front()->backend().kernel_watch();
    std::vector<double> launching;
    for (int step = 0; step < options_.warmup_steps + options_.steps; ++step) {
      if (options_.graphs && step == 1) launcher.repeat();
      if (watch != nullptr && step >= options_.warmup_steps)
        watch->begin_step(step - options_.warmup_steps);
      launcher.begin_step(static_cast<std::uint32_t>(step));
      const LaunchedStep done = launcher.run_step(clock_);
      if (step >= options_.warmup_steps)
        launching.push_back(static_cast<double>(done.launching_ns) * 1e-9);
      end_step(step, done.start_ns, done.end_ns);
    }
    if (watch != nullptr) result_.kernels = join_kernels(result_.trace, watch->stop());
    if (!launching.empty())
      result_.host_per_action =
          Seconds(median(launching) / static_cast<double>(compute_actions(program_)));
  }

  void thread_steps() {
    const auto ranks = static_cast<std::ptrdiff_t>(program_.shape().ranks);
    barrier_ = std::make_unique<std::barrier<Stamp>>(ranks + 1, Stamp{&arrived_ns_});
    std::vector<std::thread> workers;
    for (std::int32_t rank = 0; rank < program_.shape().ranks; ++rank) {
      workers.emplace_back([this, rank] { work(rank); });
    }
    barrier_->arrive_and_wait();  // every rank is prepared
    blocks_ = blocks_taken();
    const int steps = failure_ ? 0 : options_.warmup_steps + options_.steps;
    for (int step = 0; step < steps && !failure_; ++step) run_step(step);
    finished_ = true;
    barrier_->arrive_and_wait();
    for (std::thread& worker : workers) worker.join();
    if (failure_) std::rethrow_exception(failure_);
  }

  void open_devices(const Backends& backends) {
    const BackendFactory& make = factory_of(options_.backend, backends);
    require_trainable(loaded_, Replicas::one, options_.backend);
    for (int rank = 0; rank < program_.shape().ranks; ++rank) {
      devices_.push_back(std::make_unique<RankDevice>(make({.rank = rank,
                                                            .ranks = program_.shape().ranks,
                                                            .dtype = loaded_.plan.dtype,
                                                            .fastest = options_.fastest,
                                                            .kernels = options_.kernels})));
    }
    batches_ = std::make_unique<Batches>(open_batches(loaded_, options_));
    training_ = std::make_unique<Training>(loaded_, program_, *batches_);
  }

  [[nodiscard]] std::unique_ptr<ActionHandler> prepare(std::int32_t rank) {
    if (!training_) return std::make_unique<Waiter>(options_.synthetic_duration_ns);
    devices_[rank]->prepare(loaded_, Rank{rank}, training_->stages);
    return std::make_unique<Trainer>(*training_, devices_[rank]->backend(), *gradients_,
                                     Rank{rank});
  }

  void work(std::int32_t rank) {
    std::unique_ptr<ActionHandler> own;
    guarded([&] { own = prepare(rank); });
    barrier_->arrive_and_wait();
    while (true) {
      barrier_->arrive_and_wait();  // a step begins, or the run ends
      if (finished_) break;
      guarded([&] { own->begin_step(static_cast<std::uint32_t>(step_)); });
      barrier_->arrive_and_wait();  // data is ready: the clock starts
      guarded([&] { interpret(*context_, Rank{rank}, *own, static_cast<std::uint32_t>(step_)); });
      barrier_->arrive_and_wait();  // the step ends
    }
  }

  [[nodiscard]] std::string hash() {
    return hash_parameters(loaded_, [&](Stage stage, std::size_t parameter,
                                        std::vector<float>& values) {
      const Tensor& weight = training_->stages[stage.position()]->parameters()[parameter].fp32();
      devices_[program_.shape().rank_of(stage).position()]->backend().to_host(
          values.data(), weight, static_cast<std::int64_t>(values.size()) * 4);
    });
  }

  void run_step(int step) {
    step_ = step;
    // Three barriers a step: it begins, data is ready (the clock starts), it ends (the clock
    // stops).
    transport_->begin_step(clock_);
    barrier_->arrive_and_wait();
    barrier_->arrive_and_wait();
    const std::int64_t start = arrived_ns_;
    barrier_->arrive_and_wait();
    const std::int64_t end = arrived_ns_;
    if (!failure_) end_step(step, start, end);
  }

  void end_step(int step, std::int64_t start, std::int64_t end) {
    const std::int64_t blocks_before = std::exchange(blocks_, blocks_taken());
    StepResult result{0, Seconds(Nanoseconds(end - start)), blocks_ - blocks_before};
    if (training_) {
      for (const double loss : training_->losses) result.loss += loss;
    }
    result_.steps.push_back(result);
    if (step == options_.warmup_steps) origin_ = start;
    if (step >= options_.warmup_steps && options_.trace) {
      append_step(result_.trace, program_, clock_, {Nanoseconds(start), Nanoseconds(end)}, origin_);
    }
    if (options_.progress) options_.progress(step + 1, options_.warmup_steps + options_.steps);
  }

  [[nodiscard]] std::int64_t blocks_taken() const {
    std::int64_t blocks = 0;
    for (const auto& device : devices_) blocks += device->arena().blocks();
    return blocks;
  }

  // The first failure wins and wakes everybody who waits for a message.
  template <class Work>
  void guarded(Work&& body) {
    if (failed_.load()) return;
    try {
      body();
    } catch (const Transport::Stopped&) {
      return;
    } catch (...) {
      // Several ranks may fail at once; the flag is set last, so who sees it finds the failure.
      const std::scoped_lock lock(failure_mutex_);
      if (!failure_) failure_ = std::current_exception();
      failed_.store(true);
      transport_->stop();
      gradients_->stop();
    }
  }

  const ResolvedPlan& loaded_;
  const RunOptions& options_;
  const Program& program_;
  std::vector<MessageRoute> routes_;
  bool spin_ = false;
  StepClock clock_;
  std::vector<std::unique_ptr<RankDevice>> devices_;  // by rank; none for timed waits
  std::unique_ptr<Batches> batches_;
  std::unique_ptr<Training> training_;  // null for timed waits
  const Stages none_;
  std::unique_ptr<ThreadTransport> transport_;
  std::unique_ptr<GradientBarrier> gradients_;
  std::unique_ptr<StepContext> context_;
  std::unique_ptr<std::barrier<Stamp>> barrier_;
  std::int64_t arrived_ns_ = 0;  // at the latest barrier
  int step_ = 0;
  bool finished_ = false;
  std::int64_t origin_ = 0;
  std::int64_t blocks_ = 0;  // taken by all arenas before this step
  std::mutex failure_mutex_;
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
  RunResult result_;
};

}  // namespace

RunResult run(const ResolvedPlan& loaded, const RunOptions& options, const Backends& backends) {
  return ThreadRun(loaded, options, backends).execute();
}

}  // namespace weir
