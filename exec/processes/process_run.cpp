// A run as one process sees it: open its device, connect, step, and give the leader what it knows.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/process_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "exec/processes/agreement.hpp"
#include "exec/processes/clock_offsets.hpp"
#include "exec/processes/gather.hpp"
#include "exec/processes/leader.hpp"
#include "exec/processes/process_grid.hpp"
#include "exec/processes/process_links.hpp"
#include "exec/processes/process_parameters.hpp"
#include "exec/processes/process_record.hpp"
#include "exec/rank/interpreter.hpp"
#include "exec/rank/rank_device.hpp"
#include "exec/rank/rehearsal.hpp"
#include "exec/rank/tensor_shards.hpp"
#include "exec/rank/trainer.hpp"
#include "exec/run/run_parts.hpp"
#include "exec/training/trainable.hpp"
#include "plan/words/error.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

// Processes of one GPU take turns on it, whatever multiprocessors each has.
bool share_a_device(const std::vector<DeviceUse>& devices) {
  return std::any_of(devices.begin(), devices.end(),
                     [](const DeviceUse& use) { return use.ranks > 1; });
}

constexpr int kWeightTag = 3;
constexpr int kLogitsTag = 4;
constexpr int kLossTag = 5;
constexpr int kStopTag = 6;

class ProcessRun {
 public:
  ProcessRun(const ResolvedPlan& loaded, const RunOptions& options, Processes& processes)
      : loaded_(loaded),
        options_(options),
        processes_(processes),
        program_(loaded.program),
        grid_(loaded.plan, program_.shape().ranks),
        routes_(route_messages(program_)),
        activity_(program_.shape().ranks),
        shape_{options.warmup_steps + options.steps, options.warmup_steps, options.trace} {
    require_consistent(options);
    if (loaded.plan.tp > 1) undivided_ = undivided(loaded);
    clock_.resize(program_.size());
  }

  RunResult execute(const Backends& backends, const ProcessLinks& links) {
    find_own_rank();
    open_device(backends, links);
    connect(links);
    ProcessRecord record(program_, rank_, shape_);
    blocks_ = blocks_taken();
    // The leader first: what an earlier run has left is gone when the others, whom its clock waits
    // for, write theirs.
    if (leads(processes_) && options_.output) LastAction::clear(*options_.output);
    // Before and after the run: between the two samples each clock's drift is a line.
    const std::vector<ClockSample> before = sample_clocks(processes_, now_ns);
    write_down_actions(program_, rank_, pipeline_, options_, activity_);
    {
      const auto watchdog = watch_actions(program_, activity_, options_);
      train(record);
    }
    activity_.forget_lines();
    const std::vector<ClockSample> after = sample_clocks(processes_, now_ns);
    const Bytes peak = device_ ? device_->arena().peak() : Bytes(0);
    const auto use = device_ ? device_->backend().device_use() : std::nullopt;
    const Bytes scratch(device_ ? device_->backend().scratch_bytes() : 0);
    record.finish(peak, scratch + links_->exchange_room(), use);
    std::optional<std::string> not_kept = std::move(kept_.failed);
    const std::string hash = training_ ? end_training(not_kept) : "";
    const std::optional<Evaluation> evaluation = evaluate_at_end();
    if (processes_.index() != 0) {
      give_record(processes_, record);
      processes_.barrier();
      RunResult result;
      result.stopped_by = stopped_by_;
      return result;
    }
    RunResult result = gather(std::move(record), before, after);
    for (DeviceUse& each : result.devices) each.sharing = use->sharing;
    result.parameters_sha256 = hash;
    result.evaluation = evaluation;
    result.first_step = from_.step;
    result.resumed = from_.resumed;
    result.checkpoints = std::move(kept_.written);
    result.not_kept = std::move(not_kept);
    result.stopped_by = stopped_by_;
    processes_.barrier();  // nobody leaves before all have said what they had to say
    return result;
  }

 private:
  void find_own_rank() {
    const auto& [ranks, places, replicas] = grid_;
    if (processes_.count() != grid_.processes()) {
      const std::string product =
          places == 1 ? fmt::format("K * D = {} * {}", ranks, replicas)
                      : fmt::format("K * T * D = {} * {} * {}", ranks, places, replicas);
      throw UsageError(fmt::format("the plan needs {} = {} processes, {} were started", product,
                                   grid_.processes(), processes_.count()));
    }
    rank_ = grid_.rank(processes_.index());
    pipeline_ = processes_.index() / ranks;
    replica_ = grid_.replica(processes_.index());
    tensor_ = grid_.place(processes_.index());
    links_.emplace(loaded_, grid_, processes_);
  }

  void open_device(const Backends& backends, const ProcessLinks& links) {
    if (options_.backend == BackendKind::synthetic) {
      require_durations(program_, options_);
      return;
    }
    if (options_.graphs == Graphs::always)
      throw UsageError("graphs repeat the launches of one process; ranks are processes here");
    const BackendFactory& make = factory_of(options_.backend, backends);
    require_trainable(loaded_, Replicas::many, options_.backend);
    if (options_.dump && loaded_.plan.tp > 1)
      throw MissingComponent("a dump is of undivided logits: not with tp above 1");
    const ProcessLocation& location = processes_.location(processes_.index());
    // A core is chosen among those the launcher left this process, a GPU among those of the host.
    const int seat = options_.backend == BackendKind::cpu ? location.on_cores : location.on_host;
    device_ = std::make_unique<RankDevice>(make({.rank = seat,
                                                 .ranks = location.host_processes,
                                                 .dtype = loaded_.plan.dtype,
                                                 .fastest = options_.fastest,
                                                 .group = links_->tensor_group(),
                                                 .divides_rows = loaded_.plan.sequence_parallel,
                                                 .processes = true}));
    // Before data and weights are read: a plan that does not fit should not cost that time.
    rehearse_own_rank();
    batches_ = std::make_unique<Batches>(open_batches(loaded_, options_));
    if (options_.evaluate)
      evaluated_ = std::make_unique<Batches>(open_evaluation(loaded_, options_));
    from_ = begin_run(whole(), options_);
    if (options_.resume) {  // a folder that one host sees older than another
      require_agreement(processes_, {{"steps trained before", std::to_string(from_.step)},
                                     {"state to go on from", from_.state_sha256}});
    }
    // One process looks at the disk and clears it, for all.
    if (leads(processes_)) {
      require_space(whole(), options_, from_.step);
      clear_checkpoints(options_);
    }
    // A device that divides layers cuts its part out of the whole state.
    if (undivided_) from_.state = shards_of(*undivided_, std::move(from_.state), place());
    training_ = std::make_unique<Training>(loaded_, program_, *batches_, from_.state);
    training_->first_microbatch = replica_ * program_.shape().microbatches;
    device_->prepare(loaded_, rank_, training_->state, training_->stages,
                     {replica_, links_->make_replica_group(links, device_->backend())});
    parameters_.emplace(loaded_, *training_, device_->backend(), processes_, kWeightTag);
  }

  // Before anything is allocated: what this rank's steps take is there, whatever others take.
  void rehearse_own_rank() const {
    const auto there = device_->backend().shared_memory();
    if (!there) return;
    CountedBlocks blocks(*there);
    rehearse(loaded_, rank_, blocks);
  }

  void connect(const ProcessLinks& links) {
    own_rank_ = links_->connect(
        links,
        {routes_, device_.get(), training_.get(), none_, activity_, to_string(options_.backend),
         [this](GradientExchange& gradients) { return make_handler(gradients); }});
  }

  [[nodiscard]] std::unique_ptr<ActionHandler> make_handler(GradientExchange& gradients) {
    if (!training_) return std::make_unique<Waiter>(options_.synthetic_duration_ns);
    return std::make_unique<Trainer>(*training_, device_->backend(), gradients, rank_);
  }

  void train(ProcessRecord& record) {
    int done = 0;
    while (done < shape_.steps && stopped_by_ == 0) {
      begin_dump(done);
      const Seconds time = run_step(done++, record);
      finish_step(done, time);
    }
    if (stopped_by_ == 0) return;
    shape_.steps = done;
    record.end_after(done);
  }

  // What a step leaves behind it: word of it, the leader's answer whether to go on, a checkpoint.
  void finish_step(int done, Seconds time) {
    const std::int64_t trained = from_.step + done;
    const double loss = training_ ? gather_loss() : 0;
    norms_.push_back(own_rank_->gradient_norm());
    if (leads(processes_) && options_.on_step)
      options_.on_step({trained, done, shape_.steps, loss, time, norms_.back()});
    if (done < shape_.steps) stopped_by_ = agree_to_stop(options_.stop ? options_.stop() : 0);
    if (!training_ || !checkpoint_due(options_, trained, stopped_by_ != 0 || done == shape_.steps))
      return;
    save_checkpoint(whole(), options_, from_, trained,
                    RunEnd{.fetch = parameters_->fetch(), .leads = leads(processes_)}, kept_);
  }

  // Any may be asked to end: a signal may reach one host alone. The leader hears of all, and all do
  // as it says.
  [[nodiscard]] int agree_to_stop(int signal) {
    for (int process = 1; process < processes_.count(); ++process) {
      if (!leads(processes_) && process != processes_.index()) continue;
      int asked = signal;
      collect(processes_, process, kStopTag, std::as_writable_bytes(std::span(&asked, 1)));
      if (leads(processes_) && signal == 0) signal = asked;
    }
    const std::span<std::byte> word = std::as_writable_bytes(std::span(&signal, 1));
    if (!leads(processes_)) {
      processes_.wait(processes_.start_receive(0, kStopTag, word));
      return signal;
    }
    std::vector<Processes::Ticket> sends;
    for (int process = 1; process < processes_.count(); ++process)
      sends.push_back(processes_.start_send(process, kStopTag, word));
    for (const Processes::Ticket send : sends) processes_.wait(send);
    return signal;
  }

  // Returns how long it took this process.
  Seconds run_step(int index, ProcessRecord& record) {
    const auto step = static_cast<std::uint32_t>(from_.step + index);
    own_rank_->begin_step(step, clock_);
    const std::int64_t began = now_ns();
    processes_.barrier();  // data is ready everywhere: the clock starts
    const ProcessRank::Step done = own_rank_->run_step(step);
    own_rank_->end_step();
    // A message of this step must not meet one of the next.
    processes_.barrier();
    const std::int64_t blocks_before = std::exchange(blocks_, blocks_taken());
    record.add({began, done.ended_ns, blocks_ - blocks_before}, clock_,
               training_ ? training_->losses : std::vector<double>{});
    // Warm-up steps do not count towards the time of a launch.
    if (done.launching_ns && index >= options_.warmup_steps) {
      launching_s_.push_back(static_cast<double>(*done.launching_ns) * 1e-9);
    }
    return Seconds(Nanoseconds(done.ended_ns - began));
  }

  [[nodiscard]] std::int64_t blocks_taken() const {
    return own_rank_->blocks() + (device_ ? device_->arena().blocks() : 0);
  }

  // As files have it: the plan without its tensor parallelism.
  [[nodiscard]] const ResolvedPlan& whole() const { return undivided_ ? *undivided_ : loaded_; }
  [[nodiscard]] TensorPlace place() const { return {tensor_, loaded_.plan.tp}; }

  // The hash, at the leader; files where they are asked for.
  [[nodiscard]] std::string end_training(std::optional<std::string>& not_kept) {
    std::string hash;
    if (leads(processes_)) {
      hash = hash_weights(whole(), parameters_->fetch());
    } else {
      give_weights(whole(), ParameterPart::values, parameters_->fetch());
    }
    RunEnd end{parameters_->fetch(), leads(processes_), stopped_by_ == 0, {}, {}};
    if (options_.dump && stopped_by_ == 0) {
      end.logits = gather_logits();
      end.tokens = tokens_of_step(loaded_, *batches_, from_.step + shape_.steps - 1);
    }
    write_files(whole(), options_, end, not_kept);
    return hash;
  }

  // The step from here on leaves its logits.
  void begin_dump(int step) {
    if (!options_.dump || step + 1 < shape_.steps) return;
    training_->logits.resize(training_->all_logits());
  }

  [[nodiscard]] std::vector<float> gather_logits() {
    const Plan& plan = loaded_.plan;
    std::vector<float> all;
    // The leader is of replica 0, before which there are none.
    if (leads(processes_))
      all.resize(training_->logits_before(std::int64_t{plan.microbatches} * plan.dp));
    each_loss([&](int process, std::size_t, std::size_t place) {
      const bool own = process == processes_.index();
      if (!own && !leads(processes_)) return;
      const auto microbatch = static_cast<std::int64_t>(place);
      const std::size_t first = training_->logits_before(microbatch);
      const std::size_t count = training_->logits_before(microbatch + 1) - first;
      const std::span<float> to =
          std::span(leads(processes_) ? all : training_->logits).subspan(first, count);
      if (own && leads(processes_))
        std::ranges::copy(std::span(training_->logits).subspan(first, count), to.begin());
      if (process != 0) collect(processes_, process, kLogitsTag, std::as_writable_bytes(to));
    });
    training_->logits.clear();
    return all;
  }

  // visit(process, micro-batch of its replica, its number among all) for each that has a loss.
  template <class Visit>
  void each_loss(Visit visit) const {
    const std::vector<Rank> ranks = loss_ranks(program_);
    for (int replica = 0; replica < loaded_.plan.dp; ++replica) {
      for (std::size_t unit = 0; unit < ranks.size(); ++unit) {
        visit(grid_.process(replica, 0, ranks[unit]), unit,
              static_cast<std::size_t>(replica) * ranks.size() + unit);
      }
    }
  }

  // The step's losses, in the order in which a run's are summed; at the leader.
  [[nodiscard]] double gather_loss() {
    double sum = 0;
    each_loss([&](int process, std::size_t unit, std::size_t) {
      double loss = training_->losses[unit];
      if (process != 0 && (leads(processes_) || process == processes_.index()))
        collect(processes_, process, kLossTag, std::as_writable_bytes(std::span(&loss, 1)));
      sum += loss;
    });
    return sum;
  }

  [[nodiscard]] std::optional<Evaluation> evaluate_at_end() {
    if (!evaluated_) return {};
    training_->batches = evaluated_.get();
    training_->evaluates = true;
    return evaluate(loaded_, *evaluated_, [&](std::uint32_t step) {
      own_rank_->begin_step(step, clock_);
      processes_.barrier();
      static_cast<void>(own_rank_->run_step(step));
      own_rank_->end_step();
      processes_.barrier();
      return gather_loss();
    });
  }

  // The leader's, with what it alone knows of the steps.
  [[nodiscard]] RunResult gather(ProcessRecord own, const std::vector<ClockSample>& before,
                                 const std::vector<ClockSample>& after) {
    const bool trains = training_ != nullptr;
    RunResult result =
        gather_records({loaded_, grid_, shape_, trains, processes_}, std::move(own), before, after);
    for (std::size_t step = 0; step < result.steps.size(); ++step)
      result.steps[step].gradient_norm = norms_[step];
    const bool launched = !launching_s_.empty();  // on GPUs, which a core each does not limit
    result.oversubscribed =
        trains && (share_a_device(result.devices) || (!launched && processes_.oversubscribed()));
    if (!launching_s_.empty()) {
      const auto actions = static_cast<double>(compute_actions(program_, rank_));
      result.host_per_action = Seconds(median(launching_s_) / actions);
    }
    return result;
  }

  const ResolvedPlan& loaded_;
  const RunOptions& options_;
  Processes& processes_;
  const Program& program_;
  ProcessGrid grid_;
  std::vector<MessageRoute> routes_;
  Activity activity_;
  RecordShape shape_;
  Rank rank_;
  int pipeline_ = 0;  // among those of all replicas and places, each of K processes
  int replica_ = 0;
  int tensor_ = 0;                         // its place among the devices that divide its layers
  std::optional<ResolvedPlan> undivided_;  // where they are divided
  std::optional<RankLinks> links_;
  std::int64_t blocks_ = 0;  // taken before this step
  StepClock clock_;
  std::unique_ptr<RankDevice> device_;  // null for timed waits, as the next two
  std::unique_ptr<Batches> batches_, evaluated_;
  Beginning from_;
  std::unique_ptr<Training> training_;
  std::optional<ProcessParameters> parameters_;  // where there is training
  int stopped_by_ = 0;                           // a signal; 0: it goes on
  CheckpointsKept kept_;                         // the leader's
  const Stages none_;
  std::unique_ptr<ProcessRank> own_rank_;
  std::vector<double> launching_s_;           // by measured step
  std::vector<std::optional<double>> norms_;  // of gradients, by step
};

}  // namespace

RunResult run_as_process(const ResolvedPlan& loaded, const RunOptions& options,
                         const Backends& backends, Processes& processes,
                         const ProcessLinks& links) {
  ProcessRun run(loaded, options, processes);
  try {
    return run.execute(backends, links);
  } catch (const Transport::Stopped&) {
    static_cast<void>(processes.conclude({}));
    throw;
  } catch (...) {
    static_cast<void>(processes.conclude(ending_of(std::current_exception())));
    throw;  // everything that messages read from or write to is freed only now
  }
}

}  // namespace weir
