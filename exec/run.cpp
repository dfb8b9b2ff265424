// A run: one worker thread a rank and a barrier at each end of a step, or, where devices only launch, one thread for
// all ranks (exec/step_launcher); and the clocks of all operations turned into a trace. What a rank does with an action
// is exec/rank_work's. SPDX-License-Identifier: Apache-2.0
#include "exec/run.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "exec/batches.hpp"
#include "exec/gradient_gate.hpp"
#include "exec/interpreter.hpp"
#include "exec/rank_work.hpp"
#include "exec/step_launcher.hpp"
#include "exec/trainable.hpp"
#include "exec/transport.hpp"
#include "plan/error.hpp"
#include "plan/sha256.hpp"

namespace weir {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

std::string hash_parameters(const Shared& shared, std::vector<std::unique_ptr<Backend>>& backends) {
  Sha256 digest;
  std::set<std::string> seen;
  for (std::int32_t stage = 0; stage < shared.program.shape.stages; ++stage) {
    Backend& backend = *backends[at(shared.program.shape.rank_of(Stage{stage}).value)];
    for (const Parameter& parameter : shared.stages[at(stage)]->parameters()) {
      const std::string& tie = parameter.description.tied_with;
      if (!tie.empty() && !seen.insert(tie).second) continue;
      std::vector<float> values(static_cast<std::size_t>(parameter.description.elements()));
      backend.to_host(values.data(), parameter.fp32(), static_cast<std::int64_t>(values.size()) * 4);
      digest.update(std::as_bytes(std::span(values)));
    }
  }
  return digest.hex();
}

void append_step(Trace& trace, const Program& program, const StepClock& clock, StepWindow window, std::int64_t origin) {
  const auto step = static_cast<std::int32_t>(trace.steps.size());
  trace.steps.push_back({window.start - Nanoseconds(origin), window.end - Nanoseconds(origin)});
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const auto id = static_cast<OperationId>(i);
    const Lane& lane = program.lane_of(id);
    Rank peer = lane.rank;
    if (lane.kind == LaneKind::send) peer = program.edges[at(lane.edge)].to;
    if (lane.kind == LaneKind::receive) peer = program.edges[at(lane.edge)].from;
    trace.spans.push_back({id, program.operations[i].action, lane.rank, lane.kind, peer, step,
                           Nanoseconds(clock.start_ns[i] - origin), Nanoseconds(clock.end_ns[i] - origin)});
  }
}

Seconds median(std::vector<Seconds> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// The moment the last thread arrived at a barrier, taken by that thread before any is released: when a step begins and
// ends, whichever thread the machine lets run first.
struct Stamp {
  std::int64_t* at_ns;
  void operator()() noexcept { *at_ns = now_ns(); }
};

class Run {
 public:
  Run(const LoadedPlan& loaded, const RunOptions& options, const Backends& backends)
      : loaded_(loaded), options_(options), program_(lower(loaded)), mail_(address_mail(program_)) {
    const auto ranks = at(program_.shape.ranks);
    result_.oversubscribed = static_cast<int>(ranks) > available_cores();
    spin_ = !result_.oversubscribed && options.backend != BackendKind::synthetic;
    clock_.start_ns.resize(program_.operations.size());
    clock_.end_ns.resize(program_.operations.size());
    if (options.backend == BackendKind::synthetic) {
      result_.oversubscribed = false;  // waits need no core
      if (options.synthetic_duration_ns.size() != program_.operations.size()) {
        throw RunFailed("the synthetic backend needs a duration for every operation");
      }
    } else {
      open_devices(backends);
    }
    if (options.graphs && !launched()) {
      throw UsageError(
          fmt::format("--graphs repeats launches on a GPU; the {} backend makes none", to_string(options.backend)));
    }
    std::vector<Arena*> arenas;
    for (auto& arena : arenas_) arenas.push_back(arena.get());
    transport_ = std::make_unique<ThreadTransport>(program_, arenas, now_ns, spin_);
    gate_ = std::make_unique<GradientGate>(program_, spin_);
    context_ = std::make_unique<StepContext>(StepContext{program_, mail_, *transport_, *gate_, now_ns, clock_});
  }

  RunResult execute() {
    if (launched()) {
      launch_steps();
    } else {
      thread_steps();
    }
    std::vector<Seconds> measured;
    for (std::size_t i = at(options_.warmup_steps); i < result_.steps.size(); ++i) {
      measured.push_back(result_.steps[i].time);
    }
    if (!measured.empty()) result_.step_time = median(measured);
    if (shared_) result_.parameters_sha256 = hash_parameters(*shared_, backends_);
    for (const auto& arena : arenas_) result_.peak_memory.push_back(arena->peak());
    for (const auto& backend : backends_) {
      result_.scratch.push_back(Bytes(backend->scratch_bytes()));
      if (auto use = backend->device_use()) result_.devices.push_back(std::move(*use));
    }
    result_.trace.origin = TraceOrigin::measured;
    result_.trace.ranks = program_.shape.ranks;
    return std::move(result_);
  }

 private:
  // Ranks whose backends only launch: one thread launches for all of them.
  [[nodiscard]] bool launched() const { return !backends_.empty() && backends_.front()->queue() != nullptr; }

  void launch_steps() {
    result_.oversubscribed = false;  // one thread, whatever K is
    std::vector<std::unique_ptr<RankWork>> works;
    std::vector<LaunchedRank> ranks;
    for (std::int32_t rank = 0; rank < program_.shape.ranks; ++rank) {
      works.push_back(prepare(rank));
      Tensor scratch = arenas_[at(rank)]->allocate(backends_[at(rank)]->scratch_bytes());
      backends_[at(rank)]->use_scratch(scratch);
      ranks.push_back({backends_[at(rank)].get(), arenas_[at(rank)].get(), works.back().get()});
    }
    StepLauncher launcher(program_, mail_, std::move(ranks), now_ns);
    blocks_ = blocks_taken();
    std::vector<Seconds> launching;
    for (int step = 0; step < options_.warmup_steps + options_.steps; ++step) {
      if (options_.graphs && step == 1) launcher.repeat();
      const LaunchedStep done = launcher.run_step(static_cast<std::uint32_t>(step), clock_);
      if (step >= options_.warmup_steps) launching.emplace_back(Nanoseconds(done.launching_ns));
      end_step(step, done.start_ns, done.end_ns);
    }
    if (!launching.empty()) result_.host_per_action = median(launching) / compute_actions();
  }

  [[nodiscard]] double compute_actions() const {
    double actions = 0;
    for (const Lane& lane : program_.lanes) {
      if (lane.kind == LaneKind::compute) actions += lane.last - lane.first;
    }
    return actions;
  }

  void thread_steps() {
    const auto ranks = static_cast<std::ptrdiff_t>(program_.shape.ranks);
    barrier_ = std::make_unique<std::barrier<Stamp>>(ranks + 1, Stamp{&arrived_ns_});
    std::vector<std::thread> workers;
    for (std::int32_t rank = 0; rank < program_.shape.ranks; ++rank) {
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
    const auto factory = backends.find(options_.backend);
    if (factory == backends.end()) {
      throw MissingComponent(fmt::format("this build has no {} backend", to_string(options_.backend)));
    }
    require_pipeline_alone(loaded_.plan);
    require_kernels(loaded_.model);
    for (const Layer& layer : loaded_.model.layers) {
      if (std::holds_alternative<TimedShape>(layer.shape)) {
        throw InputError(loaded_.plan.model_path, layer.name,
                         "a layer of which only times are known cannot be trained; use --backend synthetic");
      }
    }
    if (program_.shape.segments > 1) {
      throw InputError(loaded_.plan.schedule, "", "slices of sequences cannot be trained; use --backend synthetic");
    }
    const auto* head = std::get_if<HeadShape>(&loaded_.model.layers.back().shape);
    const auto* embedding = std::get_if<EmbeddingShape>(&loaded_.model.layers.front().shape);
    if (head == nullptr || embedding == nullptr) {
      throw InputError(loaded_.plan.model_path, "layers", "training needs an embedding first and a head last");
    }
    for (int rank = 0; rank < program_.shape.ranks; ++rank) {
      backends_.push_back(factory->second(
          {.rank = rank, .ranks = program_.shape.ranks, .dtype = loaded_.plan.dtype, .fastest = options_.fastest}));
      arenas_.push_back(std::make_unique<Arena>(*backends_.back()));
    }
    batches_ =
        std::make_unique<Batches>(options_.data, embedding->vocabulary, loaded_.plan.seq_length, loaded_.plan.seed);
    shared_ = std::make_unique<Shared>(loaded_, program_, *batches_);
  }

  [[nodiscard]] std::unique_ptr<RankWork> prepare(std::int32_t rank) {
    if (!shared_) return std::make_unique<Waiter>(options_.synthetic_duration_ns);
    Backend& backend = *backends_[at(rank)];
    std::vector<Layer> layers;
    std::vector<Stage> stages;
    for (std::int32_t stage = 0; stage < program_.shape.total_stages(); ++stage) {
      if (program_.shape.rank_of(Stage{stage}).value != rank) continue;
      stages.push_back(Stage{stage});
      const LayerRange range =
          layers_of_stage(loaded_.plan, static_cast<int>(loaded_.model.layers.size()), Stage{stage});
      for (int l = range.first; l < range.last; ++l) layers.push_back(loaded_.model.layers[at(l)]);
    }
    backend.prepare(layers, loaded_.plan.micro_batch_size, loaded_.plan.seq_length);
    for (const Stage stage : stages) {
      shared_->stages[at(stage.value)] = std::make_unique<StageWorker>(loaded_, stage, backend, *arenas_[at(rank)]);
    }
    return std::make_unique<Trainer>(*shared_, backend, Rank{rank});
  }

  void work(std::int32_t rank) {
    std::unique_ptr<RankWork> own;
    Tensor scratch;
    guarded([&] {
      own = prepare(rank);
      if (shared_) {
        scratch = arenas_[at(rank)]->allocate(backends_[at(rank)]->scratch_bytes());
        backends_[at(rank)]->use_scratch(scratch);
      }
    });
    barrier_->arrive_and_wait();
    while (true) {
      barrier_->arrive_and_wait();  // a step begins, or the run ends
      if (finished_) break;
      guarded([&] { own->begin_step(static_cast<std::uint32_t>(step_)); });
      barrier_->arrive_and_wait();  // data is ready: the clock starts
      guarded([&] { interpret(*context_, Rank{rank}, *own, static_cast<std::uint32_t>(step_)); });
      barrier_->arrive_and_wait();  // the step ends
    }
    if (scratch) arenas_[at(rank)]->release(scratch);
  }

  void run_step(int step) {
    step_ = step;
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
    if (shared_) {
      for (const double loss : shared_->losses) result.loss += loss;
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
    for (const auto& arena : arenas_) blocks += arena->blocks();
    return blocks;
  }

  // The first failure wins and wakes everybody who waits for a message.
  template <class Work>
  void guarded(Work&& body) {
    if (failed_.load()) return;
    try {
      body();
    } catch (const ThreadTransport::Stopped&) {
      return;
    } catch (...) {
      const std::scoped_lock lock(failure_mutex_);
      if (!failure_) failure_ = std::current_exception();
      failed_.store(true);
      transport_->stop();
      gate_->stop();
    }
  }

  const LoadedPlan& loaded_;
  const RunOptions& options_;
  Program program_;
  std::vector<Mail> mail_;
  bool spin_ = false;
  StepClock clock_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::unique_ptr<Batches> batches_;
  std::unique_ptr<Shared> shared_;  // null for timed waits
  std::unique_ptr<ThreadTransport> transport_;
  std::unique_ptr<GradientGate> gate_;
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

std::string to_string(BackendKind kind) {
  static constexpr const char* kNames[] = {"cpu", "cuda", "synthetic"};
  return kNames[static_cast<std::size_t>(kind)];
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

std::vector<Bytes> outside_the_pools(const std::vector<DeviceUse>& ranks) {
  std::vector<Bytes> outside;
  for (const DeviceUse& use : ranks) {
    if (at(use.device) >= outside.size()) outside.resize(at(use.device) + 1);
    outside[at(use.device)] = use.device_used;  // the latest reading stands for all
  }
  for (const DeviceUse& use : ranks) outside[at(use.device)] -= use.pool_reserved;
  return outside;
}

RunResult run(const LoadedPlan& loaded, const RunOptions& options, const Backends& backends) {
  return Run(loaded, options, backends).execute();
}

}  // namespace weir
