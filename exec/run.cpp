// A run: one worker thread a rank, a barrier at each end of a step, and the clocks of all operations turned into a
// trace. Start at `run`; `Trainer` is a rank that trains, `Waiter` one that only waits for given times.
// SPDX-License-Identifier: Apache-2.0
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
#include <tuple>

#include "exec/batches.hpp"
#include "exec/interpreter.hpp"
#include "exec/stage.hpp"
#include "exec/transport.hpp"
#include "plan/error.hpp"
#include "plan/sha256.hpp"

namespace weir {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

// Timed waits, no training: sleeps to a deadline, the last stretch awake, because a sleep may oversleep.
class Waiter : public RankWork {
 public:
  explicit Waiter(const std::vector<std::int64_t>& durations) : durations_(durations) {}
  void begin_step(std::uint32_t) override {}
  Tensor act(OperationId id, const Action&, Tensor) override {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(durations_[at(id)]);
    if (durations_[at(id)] > 0) std::this_thread::sleep_until(deadline);
    return {};
  }

 private:
  const std::vector<std::int64_t>& durations_;
};

// Everything the ranks of one training run share.
struct Shared {
  Shared(const LoadedPlan& plan, const Program& lowered, const Batches& data)
      : loaded(plan), program(lowered), batches(data) {}
  const LoadedPlan& loaded;
  const Program& program;
  const Batches& batches;
  std::vector<std::unique_ptr<StageWorker>> stages;              // by global stage
  std::vector<double> losses;                                    // by micro-batch
  std::unique_ptr<std::atomic<std::uint32_t>[]> gradients_done;  // by stage: the last step whose gradients are whole
  std::vector<OperationId> last_gradient;                        // by stage
  std::atomic<bool> stopped{false};
};

class Trainer : public RankWork {
 public:
  Trainer(Shared& shared, Backend& backend, StepClock& clock, bool spin)
      : shared_(shared), backend_(backend), clock_(clock), spin_(spin) {
    const std::int64_t tokens = shared.loaded.plan.micro_batch_size * (shared.loaded.plan.seq_length + 1);
    tokens_.resize(static_cast<std::size_t>(shared.program.shape.microbatches),
                   std::vector<std::int32_t>(static_cast<std::size_t>(tokens)));
  }

  void begin_step(std::uint32_t step) override {
    step_ = step;
    const Plan& plan = shared_.loaded.plan;
    for (std::size_t m = 0; m < tokens_.size(); ++m) {
      for (int sample = 0; sample < plan.micro_batch_size; ++sample) {
        const auto index = static_cast<std::uint32_t>(static_cast<int>(m) * plan.micro_batch_size + sample);
        shared_.batches.sample(step, index, &tokens_[m][static_cast<std::size_t>(sample * (plan.seq_length + 1))]);
      }
    }
  }

  Tensor act(OperationId id, const Action& action, Tensor incoming) override {
    StageWorker& stage = *shared_.stages[at(action.stage.value)];
    if (action.kind == ActionKind::OPTIMIZER) {
      update(id, action.stage);
      return {};
    }
    const auto m = at(action.microbatch.value);
    const Pass pass{step_, action.microbatch.value, tokens_[m].data(), &shared_.losses[m]};
    Tensor outgoing;
    switch (action.kind) {
      case ActionKind::F:
        outgoing = stage.forward(pass, incoming, keep(action));
        break;
      case ActionKind::R:
        stage.rematerialise(pass);
        break;
      case ActionKind::B:
        outgoing = stage.backward(pass, incoming);
        break;
      case ActionKind::I:
        outgoing = stage.backward_input(pass, incoming);
        break;
      default:
        stage.backward_weight(pass);
        break;
    }
    backend_.finish();
    if (id == shared_.last_gradient[at(action.stage.value)]) {
      shared_.gradients_done[at(action.stage.value)].store(step_ + 1, std::memory_order_release);
      if (!spin_) shared_.gradients_done[at(action.stage.value)].notify_all();
    }
    return outgoing;
  }

 private:
  [[nodiscard]] StageWorker::Keep keep(const Action& forward) const {
    const Plan& plan = shared_.loaded.plan;
    const bool kept = plan.recompute.mode == RecomputeMode::none ||
                      (plan.recompute.except_last && forward.microbatch.value == plan.microbatches - 1);
    return kept ? StageWorker::Keep::everything : StageWorker::Keep::input_only;
  }

  // The stages whose gradients this one's optimizer sums: those its REDUCE_GRADs wait for.
  void await_gradients(OperationId optimizer) {
    for (const Dependency& reduce : shared_.program.predecessors(optimizer)) {
      const std::int64_t start = now_ns();
      for (const Dependency& gradient : shared_.program.predecessors(reduce.before)) {
        const Stage stage = shared_.program.operations[at(gradient.before)].action.stage;
        auto& done = shared_.gradients_done[at(stage.value)];
        for (std::uint32_t seen = done.load(std::memory_order_acquire); seen < step_ + 1;
             seen = done.load(std::memory_order_acquire)) {
          if (shared_.stopped.load()) throw ThreadTransport::Stopped{};
          if (spin_) {
            std::this_thread::yield();
          } else {
            done.wait(seen, std::memory_order_acquire);
          }
        }
      }
      if (shared_.program.operations[at(reduce.before)].action.stage ==
          shared_.program.operations[at(optimizer)].action.stage) {
        clock_.start_ns[at(reduce.before)] = start;
        clock_.end_ns[at(reduce.before)] = now_ns();
      }
    }
  }

  void update(OperationId id, Stage stage) {
    await_gradients(id);
    clock_.start_ns[at(id)] = now_ns();
    StageWorker& worker = *shared_.stages[at(stage.value)];
    worker.update(step_ + 1, [&](const Parameter& parameter) { return copies_of(parameter, stage); });
    backend_.finish();
    worker.begin_step();
  }

  // Gradients of every use of a parameter, in layer order and then by replica; empty for a use that is updated
  // elsewhere on this stage.
  [[nodiscard]] std::vector<Tensor> copies_of(const Parameter& parameter, Stage stage) const {
    if (!parameter.owns_weight) return {};
    const ScheduleShape& shape = shared_.program.shape;
    std::vector<std::tuple<int, std::int32_t, Tensor>> found;
    for (std::int32_t other = 0; other < shape.total_stages(); ++other) {
      const bool same_stage = other % shape.stages == stage.value % shape.stages;
      if (!same_stage && parameter.description.tied_with.empty()) continue;
      for (const Parameter& candidate : shared_.stages[at(other)]->parameters()) {
        const bool same = candidate.layer == parameter.layer && candidate.tensor == parameter.tensor;
        const bool tied = !parameter.description.tied_with.empty() &&
                          candidate.description.tied_with == parameter.description.tied_with;
        if (same || tied) found.emplace_back(candidate.layer, other, candidate.gradient);
      }
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
    });
    std::vector<Tensor> gradients;
    for (const auto& [layer, other, gradient] : found) gradients.push_back(gradient);
    return gradients;
  }

  Shared& shared_;
  Backend& backend_;
  StepClock& clock_;
  bool spin_;
  std::uint32_t step_ = 0;
  std::vector<std::vector<std::int32_t>> tokens_;  // by micro-batch
};

std::string hash_parameters(const Shared& shared, std::vector<std::unique_ptr<Backend>>& backends) {
  Sha256 digest;
  std::set<std::string> seen;
  for (std::int32_t stage = 0; stage < shared.program.shape.stages; ++stage) {
    Backend& backend = *backends[at(shared.program.shape.rank_of(Stage{stage}).value)];
    for (const Parameter& parameter : shared.stages[at(stage)]->parameters()) {
      const std::string& tie = parameter.description.tied_with;
      if (!tie.empty() && !seen.insert(tie).second) continue;
      std::vector<float> values(static_cast<std::size_t>(parameter.description.elements()));
      backend.to_host(values.data(), parameter.weight, static_cast<std::int64_t>(values.size()) * 4);
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
    std::vector<Arena*> arenas;
    for (auto& arena : arenas_) arenas.push_back(arena.get());
    transport_ = std::make_unique<ThreadTransport>(program_, arenas, now_ns, spin_);
  }

  RunResult execute() {
    const auto ranks = static_cast<std::ptrdiff_t>(program_.shape.ranks);
    barrier_ = std::make_unique<std::barrier<>>(ranks + 1);
    std::vector<std::thread> workers;
    for (std::int32_t rank = 0; rank < program_.shape.ranks; ++rank) {
      workers.emplace_back([this, rank] { work(rank); });
    }
    barrier_->arrive_and_wait();  // every rank is prepared
    const int steps = failure_ ? 0 : options_.warmup_steps + options_.steps;
    for (int step = 0; step < steps && !failure_; ++step) run_step(step);
    finished_ = true;
    barrier_->arrive_and_wait();
    for (std::thread& worker : workers) worker.join();
    if (failure_) std::rethrow_exception(failure_);
    std::vector<Seconds> measured;
    for (int i = options_.warmup_steps; i < steps; ++i) measured.push_back(result_.steps[at(i)].time);
    if (!measured.empty()) result_.step_time = median(measured);
    if (shared_) result_.parameters_sha256 = hash_parameters(*shared_, backends_);
    for (const auto& arena : arenas_) result_.peak_memory.push_back(arena->peak());
    result_.trace.origin = TraceOrigin::measured;
    result_.trace.ranks = program_.shape.ranks;
    return std::move(result_);
  }

 private:
  void open_devices(const Backends& backends) {
    const auto factory = backends.find(options_.backend);
    if (factory == backends.end()) {
      throw MissingComponent(fmt::format("this build has no {} backend", to_string(options_.backend)));
    }
    for (const Layer& layer : loaded_.model.layers) {
      if (std::holds_alternative<TimedShape>(layer.shape)) {
        throw InputError(loaded_.plan.model_path, layer.name,
                         "a layer of which only times are known cannot be trained; use --backend synthetic");
      }
    }
    const auto* head = std::get_if<HeadShape>(&loaded_.model.layers.back().shape);
    const auto* embedding = std::get_if<EmbeddingShape>(&loaded_.model.layers.front().shape);
    if (head == nullptr || embedding == nullptr) {
      throw InputError(loaded_.plan.model_path, "layers", "training needs an embedding first and a head last");
    }
    for (int rank = 0; rank < program_.shape.ranks; ++rank) {
      backends_.push_back(factory->second({rank, program_.shape.ranks, loaded_.plan.dtype}));
      arenas_.push_back(std::make_unique<Arena>(*backends_.back()));
    }
    batches_ =
        std::make_unique<Batches>(options_.data, embedding->vocabulary, loaded_.plan.seq_length, loaded_.plan.seed);
    const auto stages = at(program_.shape.total_stages());
    shared_ = std::make_unique<Shared>(loaded_, program_, *batches_);
    shared_->stages.resize(stages);
    shared_->losses.resize(at(program_.shape.units()));
    shared_->gradients_done = std::make_unique<std::atomic<std::uint32_t>[]>(stages);
    shared_->last_gradient.assign(stages, -1);
    for (std::size_t i = 0; i < program_.operations.size(); ++i) {
      const Action& action = program_.operations[i].action;
      if (action.kind == ActionKind::B || action.kind == ActionKind::W) {
        shared_->last_gradient[at(action.stage.value)] = static_cast<OperationId>(i);
      }
    }
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
    return std::make_unique<Trainer>(*shared_, backend, clock_, spin_);
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
      guarded([&] { interpret(program_, mail_, Rank{rank}, *own, *transport_, now_ns, clock_); });
      barrier_->arrive_and_wait();  // the step ends
    }
    if (scratch) arenas_[at(rank)]->release(scratch);
  }

  void run_step(int step) {
    step_ = step;
    transport_->begin_step(clock_);
    barrier_->arrive_and_wait();
    barrier_->arrive_and_wait();
    const std::int64_t start = now_ns();
    barrier_->arrive_and_wait();
    const std::int64_t end = now_ns();
    if (failure_) return;
    StepResult result{0, Seconds(Nanoseconds(end - start))};
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
      if (shared_) {
        shared_->stopped.store(true);
        for (std::int32_t s = 0; s < program_.shape.total_stages(); ++s) {
          shared_->gradients_done[at(s)].store(~0U);
          shared_->gradients_done[at(s)].notify_all();
        }
      }
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
  std::unique_ptr<std::barrier<>> barrier_;
  int step_ = 0;
  bool finished_ = false;
  std::int64_t origin_ = 0;
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

RunResult run(const LoadedPlan& loaded, const RunOptions& options, const Backends& backends) {
  return Run(loaded, options, backends).execute();
}

}  // namespace weir
