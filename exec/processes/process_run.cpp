// A run as one process sees it: open its device, connect, step, and give the leader what it knows.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/process_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "exec/processes/clock_offsets.hpp"
#include "exec/processes/interpreted_rank.hpp"
#include "exec/processes/process_record.hpp"
#include "exec/processes/stream_rank.hpp"
#include "exec/rank/interpreter.hpp"
#include "exec/rank/message_sizes.hpp"
#include "exec/rank/rank_device.hpp"
#include "exec/rank/trainer.hpp"
#include "exec/run/run_parts.hpp"
#include "exec/training/parameter_hash.hpp"
#include "exec/training/trainable.hpp"
#include "plan/words/error.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

constexpr int kRecordTag = 2;
constexpr int kHashTag = 3;

class ProcessRun {
 public:
  ProcessRun(const ResolvedPlan& loaded, const RunOptions& options, Processes& processes)
      : loaded_(loaded),
        options_(options),
        processes_(processes),
        program_(loaded.program),
        routes_(route_messages(program_)),
        shape_{options.warmup_steps + options.steps, options.warmup_steps, options.trace} {
    clock_.resize(program_.size());
  }

  RunResult execute(const Backends& backends, const ProcessLinks& links) {
    find_own_rank();
    open_device(backends);
    connect(links);
    ProcessRecord record(program_, rank_, shape_);
    blocks_ = blocks_taken();
    const std::vector<ClockSample> before = sample_clocks(processes_, now_ns);
    for (int step = 0; step < shape_.steps; ++step)
      run_step(static_cast<std::uint32_t>(step), record);
    const std::vector<ClockSample> after = sample_clocks(processes_, now_ns);
    const Bytes peak = device_ ? device_->arena().peak() : Bytes(0);
    const auto use = device_ ? device_->backend().device_use() : std::nullopt;
    record.finish(peak, Bytes(device_ ? device_->backend().scratch_bytes() : 0), use);
    const std::string hash = training_ ? gather_hash() : "";
    if (processes_.index() != 0) {
      processes_.wait(
          processes_.start_send(0, kRecordTag, std::as_bytes(std::span(record.numbers()))));
      processes_.barrier();
      return {};
    }
    RunResult result = gather(std::move(record), before, after);
    for (DeviceUse& each : result.devices) each.sharing = use->sharing;
    result.parameters_sha256 = hash;
    processes_.barrier();  // nobody leaves before all have said what they had to say
    return result;
  }

 private:
  void find_own_rank() {
    const int ranks = program_.shape().ranks;
    const int replicas = loaded_.plan.dp;
    if (processes_.count() != ranks * replicas) {
      throw UsageError(fmt::format("the plan needs K * D = {} * {} = {} processes, {} were started",
                                   ranks, replicas, ranks * replicas, processes_.count()));
    }
    rank_ = Rank{processes_.index() % ranks};
    replica_ = processes_.index() / ranks;
  }

  void open_device(const Backends& backends) {
    if (options_.backend == BackendKind::synthetic) {
      require_durations(program_, options_);
      return;
    }
    if (options_.graphs)
      throw UsageError("graphs repeat the launches of one process; ranks are processes here");
    const BackendFactory& make = factory_of(options_.backend, backends);
    require_trainable(loaded_, Replicas::many, options_.backend);
    const ProcessLocation& location = processes_.location(processes_.index());
    // A core is chosen among those the launcher left this process, a GPU among those of the host.
    const int seat = options_.backend == BackendKind::cpu ? location.on_cores : location.on_host;
    device_ = std::make_unique<RankDevice>(make({.rank = seat,
                                                 .ranks = location.host_processes,
                                                 .dtype = loaded_.plan.dtype,
                                                 .fastest = options_.fastest}));
    batches_ = std::make_unique<Batches>(open_batches(loaded_, options_));
    training_ = std::make_unique<Training>(loaded_, program_, *batches_);
    training_->first_microbatch = replica_ * program_.shape().microbatches;
    device_->prepare(loaded_, rank_, training_->stages);
  }

  void connect(const ProcessLinks& links) {
    if (training_) message_bytes_ = message_bytes(loaded_);
    if (const auto* launched = std::get_if<StreamTransportFactory>(&links)) {
      connect_streams(*launched);
    } else {
      connect_interpreted(std::get<TransportFactory>(links));
    }
  }

  void connect_interpreted(const TransportFactory& open_transport) {
    Backend* backend = device_ ? &device_->backend() : nullptr;
    Arena* arena = device_ ? &device_->arena() : nullptr;
    auto transport = open_transport({program_, message_bytes_, rank_,
                                     replica_ * program_.shape().ranks, backend, arena, now_ns});
    own_rank_ = std::make_unique<InterpretedRank>(
        routes_, std::move(transport),
        ProcessGradients::Setup{program_, training_ ? training_->stages : none_,
                                training_ ? gradient_copies(loaded_) : GradientCopies{}, rank_,
                                replica_, loaded_.plan.dp, backend, arena, now_ns},
        processes_, [this](GradientExchange& gradients) { return make_handler(gradients); });
  }

  void connect_streams(const StreamTransportFactory& open_transport) {
    if (!device_ || device_->backend().stream() == nullptr) {
      throw UsageError(
          fmt::format("transport nccl moves messages between GPUs; the {} backend has none",
                      to_string(options_.backend)));
    }
    Backend& backend = device_->backend();
    Arena& arena = device_->arena();
    const GradientCopies copies = gradient_copies(loaded_);
    auto transport = open_transport({program_, rank_, replica_, loaded_.plan.dp,
                                     sharing_ranks(program_, copies), &backend, &arena});
    own_rank_ = std::make_unique<StreamRank>(
        routes_, std::move(transport),
        StreamGradients::Setup{program_, training_->stages, copies, rank_, loaded_.plan.dp, &arena,
                               backend.stream()},
        message_bytes_, backend,
        [this](GradientExchange& gradients) { return make_handler(gradients); },
        [this](const std::function<bool()>& reached) { processes_.wait_until(reached); }, now_ns);
  }

  [[nodiscard]] std::unique_ptr<ActionHandler> make_handler(GradientExchange& gradients) {
    if (!training_) return std::make_unique<Waiter>(options_.synthetic_duration_ns);
    return std::make_unique<Trainer>(*training_, device_->backend(), gradients, rank_);
  }

  void run_step(std::uint32_t step, ProcessRecord& record) {
    own_rank_->begin_step(step, clock_);
    const std::int64_t began = now_ns();
    processes_.barrier();  // data is ready everywhere: the clock starts
    const ProcessRank::Step done = own_rank_->run_step(step);
    own_rank_->end_step();
    processes_.barrier();
    const std::int64_t blocks_before = std::exchange(blocks_, blocks_taken());
    record.add({began, done.ended_ns, blocks_ - blocks_before}, clock_,
               training_ ? training_->losses : std::vector<double>{});
    if (done.launching_ns && static_cast<int>(step) >= options_.warmup_steps) {
      launching_s_.push_back(static_cast<double>(*done.launching_ns) * 1e-9);
    }
    if (options_.progress && processes_.index() == 0)
      options_.progress(static_cast<int>(step) + 1, shape_.steps);
  }

  [[nodiscard]] std::int64_t blocks_taken() const {
    return own_rank_->blocks() + (device_ ? device_->arena().blocks() : 0);
  }

  // Replica 0's parameters go to the leader one after the other, in the order of the hash.
  [[nodiscard]] std::string gather_hash() {
    const auto own = [&](Stage stage, std::size_t parameter, std::vector<float>& values) {
      device_->backend().to_host(
          values.data(), training_->stages[stage.position()]->parameters()[parameter].fp32(),
          static_cast<std::int64_t>(values.size()) * 4);
    };
    if (processes_.index() == 0) {
      return hash_parameters(
          loaded_, [&](Stage stage, std::size_t parameter, std::vector<float>& values) {
            const Rank holder = program_.shape().rank_of(stage);
            if (holder == rank_) return own(stage, parameter, values);
            processes_.wait(processes_.start_receive(holder.value, kHashTag,
                                                     std::as_writable_bytes(std::span(values))));
          });
    }
    visit_hashed_parameters(
        loaded_, [&](Stage stage, std::size_t parameter, std::int64_t elements) {
          if (program_.shape().rank_of(stage) != rank_ || replica_ != 0) return;
          std::vector<float> values(static_cast<std::size_t>(elements));
          own(stage, parameter, values);
          processes_.wait(processes_.start_send(0, kHashTag, std::as_bytes(std::span(values))));
        });
    return "";
  }

  [[nodiscard]] RunResult gather(ProcessRecord own, const std::vector<ClockSample>& before,
                                 const std::vector<ClockSample>& after) {
    std::vector<ProcessRecord> records{std::move(own)};
    std::vector<ClockLine> lines{{}};
    for (int process = 1; process < processes_.count(); ++process) {
      records.emplace_back(program_, Rank{process % program_.shape().ranks}, shape_);
      processes_.wait(processes_.start_receive(
          process, kRecordTag, std::as_writable_bytes(std::span(records.back().numbers()))));
      lines.push_back({before[process], after[process]});
    }
    RunResult result = merge(program_, shape_, records, lines);
    for (int rank = 0; rank < program_.shape().ranks && training_; ++rank) {
      Bytes peak{0};
      for (auto p = static_cast<std::size_t>(rank); p < records.size();
           p += program_.shape().ranks) {
        peak = std::max(peak, records[p].peak());
      }
      result.peak_memory.push_back(peak);
      result.scratch.push_back(records[rank].scratch());
      add_device(result.devices, records[rank].device_use(), processes_.location(rank).host);
    }
    result.oversubscribed = training_ && launching_s_.empty() && processes_.oversubscribed();
    if (!launching_s_.empty()) {
      const auto actions = static_cast<double>(compute_actions(program_, rank_));
      result.host_per_action = Seconds(median(launching_s_) / actions);
    }
    describe(result.trace, lines);
    return result;
  }

  // Devices are numbered over all hosts.
  void add_device(std::vector<DeviceUse>& devices, std::optional<DeviceUse> use,
                  const std::string& host) {
    if (!use) return;
    const auto number = static_cast<int>(device_numbers_.size());
    use->device = device_numbers_.try_emplace({host, use->device}, number).first->second;
    devices.push_back(std::move(*use));
  }

  void describe(Trace& trace, const std::vector<ClockLine>& lines) const {
    std::set<std::string> hosts;
    std::int64_t worst = 0;
    for (int process = 0; process < processes_.count(); ++process) {
      hosts.insert(processes_.location(process).host);
      worst = std::max(worst, lines[process].uncertainty_ns());
    }
    trace.info["processes"] = fmt::format("{} on {} host{}, {}", processes_.count(), hosts.size(),
                                          hosts.size() == 1 ? "" : "s", processes_.description());
    trace.info["clock"] =
        worst == 0 ? "one clock"
                   : fmt::format("clocks joined by ping-pong, each to within {} ns", worst);
    if (loaded_.plan.dp > 1) trace.info["replica"] = fmt::format("0 of {}", loaded_.plan.dp);
  }

  const ResolvedPlan& loaded_;
  const RunOptions& options_;
  Processes& processes_;
  const Program& program_;
  std::vector<MessageRoute> routes_;
  std::vector<std::int64_t> message_bytes_;
  RecordShape shape_;
  Rank rank_;
  int replica_ = 0;
  std::int64_t blocks_ = 0;  // taken before this step
  StepClock clock_;
  std::unique_ptr<RankDevice> device_;  // null for timed waits, as the next two
  std::unique_ptr<Batches> batches_;
  std::unique_ptr<Training> training_;
  const Stages none_;
  std::unique_ptr<ProcessRank> own_rank_;
  std::vector<double> launching_s_;                            // by measured step
  std::map<std::pair<std::string, int>, int> device_numbers_;  // by host and its own number there
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
