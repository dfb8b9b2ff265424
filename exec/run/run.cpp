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
#include <optional>
#include <string>
#include <utility>

#include "exec/device/cores.hpp"
#include "exec/rank/interpreter.hpp"
#include "exec/rank/rank_device.hpp"
#include "exec/rank/rehearsal.hpp"
#include "exec/rank/step_trace.hpp"
#include "exec/rank/trainer.hpp"
#include "exec/run/run_parts.hpp"
#include "exec/streams/step_launcher.hpp"
#include "exec/threads/gradient_barrier.hpp"
#include "exec/threads/team.hpp"
#include "exec/threads/thread_transport.hpp"
#include "exec/training/batches.hpp"
#include "exec/training/each_weight.hpp"
#include "exec/training/trainable.hpp"
#include "plan/model/sample.hpp"
#include "plan/words/error.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

using namespace std::chrono_literals;

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
  if (options.graphs == Graphs::always) {
    throw UsageError(
        "kernels and graphs exclude each other: a graph is launched as one, so none of its "
        "kernels is known by the "
        "action it belongs to");
  }
  if (!options.trace)
    throw UsageError("kernels are recorded for the actions of a trace: it cannot be left out");
}

constexpr const char* kLabelsDiffer =
    "graphs repeat one step: of masked tokens each step has another number of labels";

class ThreadRun {
 public:
  ThreadRun(const ResolvedPlan& loaded, const RunOptions& options, const Backends& backends)
      : loaded_(loaded),
        options_(options),
        program_(loaded.program),
        routes_(route_messages(program_)),
        activity_(program_.shape().ranks) {
    require_recordable_kernels(options);
    require_consistent(options);
    const auto ranks = program_.shape().ranks;
    result_.oversubscribed = static_cast<int>(ranks) > available_cores();
    // Waiting by spinning pays only where each rank has a core of its own.
    spin_ = !result_.oversubscribed && options.backend != BackendKind::synthetic;
    clock_.resize(program_.size());
    if (options.backend == BackendKind::synthetic) {
      require_whole_vocabulary(loaded_);
      result_.oversubscribed = false;  // waits need no core
      require_durations(program_, options);
    } else {
      open_devices(backends);
    }
    if (options.graphs == Graphs::always && !has_streams()) {
      throw UsageError(fmt::format("graphs repeat launches on a GPU; the {} backend makes none",
                                   to_string(options.backend)));
    }
    if (options.graphs == Graphs::always && loaded.plan.optimizer.rate != RateSchedule{})
      throw UsageError("graphs repeat one step: its learning rate cannot follow a schedule");
    if (options.graphs == Graphs::always && labels_differ()) throw UsageError(kLabelsDiffer);
    std::vector<Arena*> arenas;
    for (auto& device : devices_) arenas.push_back(&device->arena());
    transport_ = std::make_unique<ThreadTransport>(program_, arenas, now_ns, spin_);
    gradients_ = std::make_unique<GradientBarrier>(GradientBarrier::Setup{
        program_, training_ ? training_->stages : none_,
        training_ ? gradient_copies(loaded) : GradientCopies{}, norm_of_barrier(), spin_, now_ns});
    context_ = std::make_unique<StepContext>(
        StepContext{program_, routes_, *transport_, *gradients_, now_ns, clock_, activity_});
  }

  RunResult execute() {
    if (has_streams()) {
      launch_steps();
    } else {
      thread_steps();
    }
    result_.step_time = median_step(result_.steps, options_.warmup_steps);
    if (training_) {
      result_.first_step = from_.step;
      result_.resumed = from_.resumed;
      result_.parameters_sha256 = hash_weights(loaded_, fetch());
      RunEnd end{fetch(), true, result_.stopped_by == 0, std::move(dumped_), {}};
      if (options_.dump)
        end.tokens = tokens_of_step(loaded_, *batches_, from_.step + all_steps() - 1);
      result_.checkpoints = std::move(kept_.written);
      result_.not_kept = std::move(kept_.failed);
      write_files(loaded_, options_, end, result_.not_kept);
    }
    // Read last: peaks are of the whole run, its evaluation included.
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
    open_stream_norm(ranks);
    StepLauncher launcher(program_, routes_, std::move(ranks), now_ns, {},
                          stream_norm_ ? &*stream_norm_ : nullptr);
    blocks_ = blocks_taken();
    KernelWatch* watch = devices_.front()->backend().kernel_watch();
    std::vector<double> launching;
    for (int step = 0; step < all_steps() && result_.stopped_by == 0; ++step) {
      // The first step allocates and warms up; from the second on all launches are alike.
      if (step == 1) repeat_from_here(launcher);
      if (watch != nullptr && step >= options_.warmup_steps)
        watch->begin_step(step - options_.warmup_steps);
      launcher.begin_step(number(step));
      const LaunchedStep done = launcher.run_step(clock_);
      if (stream_norm_) stream_norm_found_ = stream_norm_->read();
      if (step >= options_.warmup_steps)
        launching.push_back(static_cast<double>(done.launching_ns) * 1e-9);
      end_step(step, done.start_ns, done.end_ns);
    }
    // After the last step: an evaluation is no part of any step's time.
    evaluate_at_end([&](std::uint32_t step) {
      launcher.begin_step(step);
      static_cast<void>(launcher.run_step(clock_));
    });
    if (watch != nullptr) result_.kernels = join_kernels(result_.trace, watch->stop());
    if (!launching.empty())
      result_.host_per_action =
          Seconds(median(launching) / static_cast<double>(compute_actions(program_)));
  }

  // Where launches do not wait the norm is the streams', and the barrier clips nothing.
  [[nodiscard]] GradientNorm norm_of_barrier() const {
    return training_ && !has_streams() ? GradientNorm(loaded_) : GradientNorm();
  }
  void open_stream_norm(const std::vector<LocalRank>& ranks) {
    GradientNorm norm(loaded_);
    if (!norm.clips()) return;
    std::vector<StreamNorm::RankOfNorm> own;
    for (const LocalRank& rank : ranks) own.push_back({rank.backend, rank.arena});
    stream_norm_.emplace(StreamNorm::Setup{program_, training_->stages, std::move(norm),
                                           *gradients_, std::move(own)});
  }
  [[nodiscard]] std::optional<double> norm_of_step() const {
    return stream_norm_ ? stream_norm_found_ : gradients_->norm();
  }

  // Whether the loss is a mean over as many labels as a step happens to have.
  [[nodiscard]] bool labels_differ() const {
    return sample_kind(loaded_.model) == SampleKind::masked_tokens;
  }

  // One graph from now on, where that was asked for or may be.
  void repeat_from_here(StepLauncher& launcher) {
    if (options_.graphs == Graphs::always) {
      launcher.repeat();
    } else if (options_.graphs == Graphs::where_possible && program_.shape().ranks == 1 &&
               !options_.kernels && !options_.evaluate &&
               loaded_.plan.optimizer.rate == RateSchedule{}) {
      result_.graph_refused =
          labels_differ() ? std::optional<std::string>(kLabelsDiffer) : launcher.try_repeat();
      if (result_.graph_refused) return;
    } else {
      return;
    }
    result_.graph = true;
  }

  void thread_steps() {
    const auto ranks = static_cast<std::ptrdiff_t>(program_.shape().ranks);
    if (options_.output) LastAction::clear(*options_.output);
    for (const Rank rank : program_.ranks())
      write_down_actions(program_, rank, 0, options_, activity_);
    barrier_ = std::make_unique<std::barrier<Stamp>>(ranks + 1, Stamp{&arrived_ns_});
    // Before the ranks: where it cannot be made, nobody waits yet.
    const auto watchdog = watch_actions(program_, activity_, options_);
    Team workers(program_.shape().ranks, [this](int rank) { work(rank); });
    barrier_->arrive_and_wait();  // every rank is prepared
    // Whatever fails here, the ranks are told that the run ends: they wait at the barrier.
    guarded([&] {
      blocks_ = blocks_taken();
      for (int step = 0; step < all_steps() && !failure_ && result_.stopped_by == 0; ++step) {
        begin_dump(step);
        const StepWindow window = thread_step(number(step));
        if (!failure_) end_step(step, window.start / 1ns, window.end / 1ns);
      }
      evaluate_at_end([this](std::uint32_t step) { static_cast<void>(thread_step(step)); });
    });
    finished_ = true;
    barrier_->arrive_and_wait();
    workers.join();
    if (failure_) std::rethrow_exception(failure_);
    activity_.forget_lines();
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
    // Before data and weights are read: a plan that does not fit should not cost that time.
    rehearse_ranks();
    batches_ = std::make_unique<Batches>(open_batches(loaded_, options_));
    if (options_.evaluate)
      evaluated_ = std::make_unique<Batches>(open_evaluation(loaded_, options_));
    from_ = begin_run(loaded_, options_);
    require_space(loaded_, options_, from_.step);
    clear_checkpoints(options_);
    training_ = std::make_unique<Training>(loaded_, program_, *batches_, from_.state);
  }

  // Before anything is allocated: what all ranks' steps take together is there.
  void rehearse_ranks() {
    const auto there = devices_.front()->backend().shared_memory();
    if (!there) return;
    CountedBlocks blocks(*there);
    for (const Rank rank : program_.ranks()) rehearse(loaded_, rank, blocks);
  }

  [[nodiscard]] std::unique_ptr<ActionHandler> prepare(std::int32_t rank) {
    if (!training_) return std::make_unique<Waiter>(options_.synthetic_duration_ns);
    devices_[rank]->prepare(loaded_, Rank{rank}, training_->state, training_->stages);
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
      guarded([&] { own->begin_step(step_); });
      barrier_->arrive_and_wait();  // data is ready: the clock starts
      guarded([&] { interpret(*context_, Rank{rank}, *own, step_); });
      barrier_->arrive_and_wait();  // the step ends
    }
  }

  // All ranks' tensors are this process's to read.
  [[nodiscard]] FetchParameter fetch() {
    return [this](Stage stage, std::size_t parameter, ParameterPart part, std::span<float> values) {
      const Parameter& held = training_->stages[stage.position()]->parameters()[parameter];
      devices_[program_.shape().rank_of(stage).position()]->backend().to_host(
          values.data(), held.part(part), static_cast<std::int64_t>(values.size_bytes()));
    };
  }

  // A step by threads: three barriers. It begins, data is ready (the clock starts), it ends (the
  // clock stops).
  [[nodiscard]] StepWindow thread_step(std::uint32_t step) {
    step_ = step;
    transport_->begin_step(clock_);
    barrier_->arrive_and_wait();
    barrier_->arrive_and_wait();
    const Nanoseconds start(arrived_ns_);
    barrier_->arrive_and_wait();
    return {start, Nanoseconds(arrived_ns_)};
  }

  // The step from here on leaves its logits.
  void begin_dump(int step) {
    if (!options_.dump || step + 1 < all_steps()) return;
    training_->logits.resize(training_->all_logits());
  }

  [[nodiscard]] double loss() const {
    double sum = 0;
    for (const double loss : training_->losses) sum += loss;
    return sum;
  }

  // `run` runs a step, its number given.
  template <class RunStep>
  void evaluate_at_end(RunStep run) {
    if (!evaluated_ || failure_) return;
    training_->batches = evaluated_.get();
    training_->evaluates = true;
    gradients_->restart();  // what training's steps counted would let an evaluation's pass
    result_.evaluation = evaluate(loaded_, *evaluated_, [&](std::uint32_t step) {
      if (!failure_) run(step);
      return loss();
    });
  }

  void end_step(int step, std::int64_t start, std::int64_t end) {
    const std::int64_t blocks_before = std::exchange(blocks_, blocks_taken());
    StepResult result{0, Seconds(Nanoseconds(end - start)), blocks_ - blocks_before,
                      norm_of_step()};
    if (training_) {
      result.loss = loss();
      dumped_ = std::exchange(training_->logits, {});
    }
    result_.steps.push_back(result);
    if (step == options_.warmup_steps) origin_ = start;
    if (step >= options_.warmup_steps && options_.trace) {
      append_step(result_.trace, program_, clock_, {Nanoseconds(start), Nanoseconds(end)}, origin_);
    }
    finish_step(step + 1, result);
  }

  // What a step leaves behind it: word of it, a checkpoint, and the question whether to go on.
  void finish_step(int done, const StepResult& step) {
    const std::int64_t trained = from_.step + done;
    if (options_.on_step)
      options_.on_step({trained, done, all_steps(), step.loss, step.time, step.gradient_norm});
    if (done < all_steps() && options_.stop) result_.stopped_by = options_.stop();
    const bool ends = result_.stopped_by != 0 || done == all_steps();
    if (training_ && checkpoint_due(options_, trained, ends))
      save_checkpoint(loaded_, options_, from_, trained, RunEnd{.fetch = fetch()}, kept_);
  }

  [[nodiscard]] int all_steps() const { return options_.warmup_steps + options_.steps; }
  // Of a step of this run, among all that were ever trained.
  [[nodiscard]] std::uint32_t number(int step) const {
    return static_cast<std::uint32_t>(from_.step + step);
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
  Activity activity_;
  bool spin_ = false;
  StepClock clock_;
  std::vector<std::unique_ptr<RankDevice>> devices_;  // by rank; none for timed waits
  std::unique_ptr<Batches> batches_, evaluated_;
  Beginning from_;
  CheckpointsKept kept_;
  std::unique_ptr<Training> training_;  // null for timed waits
  const Stages none_;
  std::unique_ptr<ThreadTransport> transport_;
  std::unique_ptr<GradientBarrier> gradients_;
  std::optional<StreamNorm> stream_norm_;  // where launches do not wait and gradients are clipped
  std::optional<double> stream_norm_found_;
  std::unique_ptr<StepContext> context_;
  std::unique_ptr<std::barrier<Stamp>> barrier_;
  std::int64_t arrived_ns_ = 0;  // at the latest barrier
  std::uint32_t step_ = 0;
  bool finished_ = false;
  std::int64_t origin_ = 0;
  std::int64_t blocks_ = 0;  // taken by all arenas before this step
  std::mutex failure_mutex_;
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
  std::vector<float> dumped_;  // logits of the last step
  RunResult result_;
};

}  // namespace

RunResult run(const ResolvedPlan& loaded, const RunOptions& options, const Backends& backends) {
  return ThreadRun(loaded, options, backends).execute();
}

}  // namespace weir
