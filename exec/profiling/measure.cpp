// In a pipeline a layer finds the cache full of other layers' weights and activations, and only its
// input fresh. So before each timed pass the backend empties its caches, and then the input is
// written. A GPU's caches are emptied last, and by the measured device alone: its neighbours share
// them and the memory behind them, and a neighbour that writes gigabytes between its passes is none
// that a stage has.
//
// One device works through a list of (layer, micro-batch size) while its neighbours work at the
// layers that other stages would hold: two devices at the same wide layer would fight for memory as
// no two stages do. A repetition runs F, then I, then W, then F and the whole B, as the executor
// would. What the clock does not see: the first touch of fresh memory (warm-up takes it), and what
// the pipeline's order makes of it (calibration learns that).
// SPDX-License-Identifier: Apache-2.0
#include "exec/profiling/measure.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <bit>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "exec/device/stream.hpp"
#include "exec/rank/stage.hpp"
#include "exec/threads/team.hpp"
#include "exec/threads/thread_transport.hpp"
#include "exec/training/stored.hpp"
#include "exec/training/trainable.hpp"
#include "plan/model/sample.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

using Clock = std::chrono::steady_clock;

double relative_spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[n * 3 / 4] - values[n / 4]) / values[n / 2];
}

using Times = PerKind<std::vector<double>>;  // seconds; of R none, it is F again

// One layer as a stage of its own on one device: the executor's own code path, allocations
// included.
class LayerBench {
 public:
  enum class Role : std::uint8_t { measured, neighbour };

  LayerBench(const Model& model, const Plan& plan, int layer, Backend& backend, Role role)
      : arena_(backend),
        backend_(backend),
        role_(role),
        loaded_(single(model, plan)),
        tokens_(plan.micro_batch_size * sample_words(model, plan.seq_length)),
        host_(backend.host_memory(kLossBytes + tokens_ * std::int64_t{sizeof(std::int32_t)})) {
    const Layer& measured = model.layers[static_cast<std::size_t>(layer)];
    backend.prepare(std::span(&measured, 1), plan.micro_batch_size, plan.seq_length);
    scratch_ = arena_.allocate(backend.scratch_bytes());
    backend.use_scratch(scratch_);
    worker_ = std::make_unique<StageWorker>(loaded_, Stage{layer}, seeded_state(loaded_), backend,
                                            arena_);
    fill_tokens(model, plan.seq_length);
    const auto output_of = [&](int l) {
      return loaded_.part->layer(l).tensors.output_bytes_per_sample * plan.micro_batch_size;
    };
    if (layer > 0) input_bytes_ = output_of(layer - 1);
    output_bytes_ = output_of(layer);
  }
  LayerBench(const LayerBench&) = delete;
  LayerBench& operator=(const LayerBench&) = delete;
  LayerBench(LayerBench&&) = delete;
  LayerBench& operator=(LayerBench&&) = delete;
  // What a device that failed has left on its stream works with what is released here.
  ~LayerBench() {
    try {
      backend_.finish();
    } catch (...) {  // the failure is on its way
    }
  }

  void repeat(Times& times) {
    const Pass pass{0, 0, tokens(), reinterpret_cast<double*>(host_.get())};
    backend_.begin_step(static_cast<std::uint32_t>(step_));
    Tensor output, gradient;
    times.f.push_back(timed_pass(input_bytes_, [&](Tensor input) {
      output = worker_->forward(pass, input, StageWorker::Keep::everything);
    }));
    // Released before I: in a pipeline the output has been sent by then.
    arena_.release(output);
    const auto backward_input = [&](Tensor given) {
      gradient = worker_->backward_input(pass, given);
    };
    times.i.push_back(timed_pass(output_bytes_, backward_input));
    arena_.release(gradient);
    times.w.push_back(timed_pass(0, [&](Tensor) { worker_->backward_weight(pass); }));
    // Again F: the B measured below must find a fresh one, as the I and W before have used up its
    // tensors.
    output = worker_->forward(pass, filled(input_bytes_), StageWorker::Keep::everything);
    arena_.release(output);
    times.b.push_back(timed_pass(output_bytes_,
                                 [&](Tensor given) { gradient = worker_->backward(pass, given); }));
    arena_.release(gradient);
    const auto own = [&](std::size_t i) {
      return std::vector<Tensor>{worker_->parameters()[i].gradient};
    };
    // The optimizer takes the stage's own gradients: no exchange is in its time.
    times.optimizer.push_back(timed([&] { worker_->update({.number = ++step_}, own); }));
    backend_.finish();
  }
  [[nodiscard]] std::int64_t scratch_bytes() const { return scratch_.bytes; }

 private:
  static ResolvedPlan single(const Model& model, Plan plan) {
    plan.pp = static_cast<int>(model.layers.size());
    plan.boundaries.clear();
    for (int l = 1; l < plan.pp; ++l) plan.boundaries.push_back(l);
    plan.zero = 0;        // the whole update is measured, whoever shares it
    plan.recompute = {};  // and passes that rebuild nothing
    return derive(plan, model, std::get<Schedule>(make_schedule("gpipe", {plan.pp, 1, 1})));
  }
  // Of images, numbers of ordinary size; as labels they are 0. Of masked tokens all are of one type
  // and each has a label.
  void fill_tokens(const Model& model, std::int64_t seq_length) {
    const SampleKind kind = sample_kind(model);
    const std::int64_t words = sample_words(model, seq_length);
    for (std::int64_t t = 0; t < tokens_; ++t) {
      const float number = 0.1F * static_cast<float>(static_cast<int>(t % 13) - 6);
      const bool type = kind == SampleKind::masked_tokens && t % words / seq_length == 1;
      const auto token = static_cast<std::int32_t>(type ? 0 : t % 7);
      tokens()[t] = kind == SampleKind::image ? std::bit_cast<std::int32_t>(number) : token;
    }
  }
  template <class Work>
  double timed_pass(std::int64_t given_bytes, Work&& work) {
    if (backend_.stream() == nullptr) backend_.evict_caches();
    const Tensor given = filled(given_bytes);
    return timed([&] { work(given); });
  }
  template <class Work>
  double timed(Work&& work) {
    if (backend_.stream() != nullptr) return timed_on_stream(*backend_.stream(), work);
    backend_.finish();
    const auto start = Clock::now();
    work();
    backend_.finish();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  // By the device's clock, between events. The host launches the pass while the device still
  // empties its caches, so that no wait for a launch is in the time. A neighbour's time is
  // nobody's.
  template <class Work>
  double timed_on_stream(Stream& stream, Work&& work) {
    // A neighbour only makes the memory busy.
    if (role_ == Role::neighbour) {
      work();
      return 0;
    }
    if (begin_.of == nullptr) {
      begin_ = stream.make_event();
      end_ = stream.make_event();
    }
    backend_.evict_caches();
    stream.record(begin_);
    work();
    stream.record(end_);
    backend_.finish();
    return static_cast<double>(stream.ns_between(begin_, end_)) * 1e-9;
  }
  [[nodiscard]] std::int32_t* tokens() const {
    return reinterpret_cast<std::int32_t*>(host_.get() + kLossBytes);
  }
  Tensor filled(std::int64_t bytes) {
    Tensor tensor = arena_.allocate(bytes);
    if (bytes == 0) return tensor;
    std::vector<float> values(
        static_cast<std::size_t>(bytes / bytes_per_element(loaded_.plan.dtype)));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = 1e-3F * static_cast<float>(static_cast<int>(i % 13) - 6);
    const std::vector<std::byte> held = stored(values, loaded_.plan.dtype);
    backend_.to_device(tensor, held.data(), static_cast<std::int64_t>(held.size()));
    return tensor;
  }

  static constexpr std::int64_t kLossBytes = sizeof(double);

  Arena arena_;
  Backend& backend_;
  Role role_;
  ResolvedPlan loaded_;
  Tensor scratch_;
  std::unique_ptr<StageWorker> worker_;
  std::int64_t tokens_;
  HostMemory
      host_;  // the loss, then the tokens: as a run has them, or copies would wait for the host
  std::int64_t input_bytes_ = 0, output_bytes_ = 0, step_ = 0;
  Event begin_, end_;  // of a backend with a stream
};

struct Job {
  int layer;
  int batch;
};

// Device 0 through the jobs, each with its neighbours at work until it has seen enough. At the
// barriers all learn whether one of them failed, and leave.
class Measuring {
 public:
  Measuring(const Model& model, const Plan& plan, const MeasureOptions& options,
            const Backends& backends)
      : model_(model),
        plan_(plan),
        options_(options),
        factory_(backends.at(options.backend)),
        working_(options.working > 0 ? options.working : options.devices),
        barrier_(working_, Decide{this}) {}

  void run(const std::vector<Job>& jobs, Measurements& result) {
    Team(working_, [&](int device) { work(device, jobs, result); }).join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // By the last to arrive, so it is the same for all.
  struct Decide {
    Measuring* all;
    void operator()() noexcept { all->leaves_ = all->failed_.load(); }
  };

  // The first failure is the one that comes out.
  template <class Work>
  void guarded(Work&& body) {
    try {
      body();
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      failed_.store(true);
    }
  }

  void work(int device, const std::vector<Job>& jobs, Measurements& result) {
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      std::unique_ptr<Backend> backend;
      std::unique_ptr<LayerBench> bench;
      guarded([&] {
        // The neighbours last read it before the latest barrier.
        if (device == 0) enough_.store(false);
        Plan plan = plan_;
        plan.micro_batch_size = jobs[j].batch;
        backend = factory_({.rank = device, .ranks = options_.devices, .dtype = plan_.dtype});
        bench = std::make_unique<LayerBench>(
            model_, plan, layer_of(device, jobs[j]), *backend,
            device == 0 ? LayerBench::Role::measured : LayerBench::Role::neighbour);
        Times warm;
        // Warm-up: first touch of memory, and kernels that are made at first use.
        bench->repeat(warm);
      });
      barrier_.arrive_and_wait();
      // After each barrier all know of a failure: leaving earlier would leave the others at it.
      if (leaves_) return;
      guarded([&] {
        if (device == 0) {
          const Times times = times_of(*bench);
          // A neighbour's failure may come before the first repetition: there is no median then.
          if (failed_.load()) return;
          note(jobs[j], times, bench->scratch_bytes(), result);
          // Guarded, too: who watches may end it.
          if (options_.progress)
            options_.progress(static_cast<int>(j) + 1, static_cast<int>(jobs.size()));
        } else {
          work_beside(*bench);
        }
      });
      barrier_.arrive_and_wait();
      if (leaves_) return;
    }
  }

  // A neighbour's layer stands as far from the measured one as its stage would.
  [[nodiscard]] int layer_of(int device, const Job& job) const {
    const auto layers = static_cast<int>(model_.layers.size());
    return (job.layer + device * layers / options_.devices) % layers;
  }

  [[nodiscard]] Times times_of(LayerBench& bench) {
    Times times;
    for (int repetition = 0; repetition < options_.most && !failed_.load(); ++repetition) {
      bench.repeat(times);
      if (repetition + 1 >= options_.least && settled(times)) break;
    }
    enough_.store(true);
    return times;
  }

  void work_beside(LayerBench& bench) const {
    Times unread;
    while (!enough_.load() && !failed_.load()) bench.repeat(unread);
  }

  [[nodiscard]] bool settled(const Times& times) const {
    return relative_spread(times.f) < options_.spread && relative_spread(times.b) < options_.spread;
  }

  static void note(const Job& job, const Times& times, std::int64_t scratch, Measurements& result) {
    PerKind<Seconds> time;
    for (const ActionKind kind : kComputeKinds) {
      if (kind != ActionKind::R) time[kind] = Seconds(median(times[kind]));
    }
    time.r = time.f;
    result.samples.push_back({job.layer, job.batch, time, relative_spread(times.f),
                              spread_over_fastest_half(times.f), Bytes(scratch)});
    result.optimizer[static_cast<std::size_t>(job.layer)] = time.optimizer;
  }

  const Model& model_;
  const Plan& plan_;
  const MeasureOptions& options_;
  const BackendFactory& factory_;
  int working_;
  std::barrier<Decide> barrier_;
  std::atomic<bool> enough_{false};  // device 0 has
  bool leaves_ = false;              // decided at the latest barrier
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

std::int64_t now_ns() { return Clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

// Messages to and fro between two threads: half a round trip is the hand-over's latency.
Seconds measure_handover(bool spin) {
  constexpr std::int32_t kRounds = 2000;
  const auto schedule = std::get<Schedule>(make_schedule("1f1b", {2, 1, kRounds}));
  LoweringOptions lowering;
  lowering.optimizer = false;
  const Program program = lower(schedule, lowering);
  // `spin` as the run will wait: a thread that sleeps is woken later.
  ThreadTransport transport(program, {}, now_ns, spin);
  StepClock clock{std::vector<std::int64_t>(program.size()),
                  std::vector<std::int64_t>(program.size())};
  transport.begin_step(clock);
  std::vector<double> trips;
  Team answer(1, [&](int) {
    for (std::int32_t i = 0; i < kRounds; ++i) {
      static_cast<void>(transport.receive(0, i));
      // The slot is freed before the answer: the sender must not wait for it in the next round.
      transport.consumed(0, i);
      transport.send(1, i, {});
    }
  });
  for (std::int32_t i = 0; i < kRounds; ++i) {
    const std::int64_t start = now_ns();
    transport.send(0, i, {});
    static_cast<void>(transport.receive(1, i));
    transport.consumed(1, i);
    trips.push_back(static_cast<double>(now_ns() - start) * 1e-9);
  }
  answer.join();
  // A median: a single interruption by the kernel would move a mean.
  return Seconds(median(std::move(trips)) / 2);
}

}  // namespace

Measurements measure(const Model& model, std::int64_t seq_length, const Plan& plan,
                     const MeasureOptions& options, const Backends& backends) {
  if (!backends.contains(options.backend)) {
    throw MissingComponent("this build has no " + to_string(options.backend) + " backend");
  }
  require_kernels(model, options.backend);
  Plan shaped = plan;
  shaped.seq_length = seq_length;
  Measurements result;
  result.optimizer.resize(model.layers.size());
  std::vector<Job> jobs;
  for (const int layer : options.layers) {
    for (const int batch : options.micro_batch_sizes) jobs.push_back({layer, batch});
  }
  Measuring(model, shaped, options, backends).run(jobs, result);
  result.link = {options.devices > 1 ? measure_handover(true) : Seconds(1e-6), BytesPerSecond(0)};
  return result;
}

}  // namespace weir
