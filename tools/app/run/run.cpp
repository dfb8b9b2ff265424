// Training steps of a plan, their records written by the process that leads. What was asked becomes
// options in run_options, what came of it is told and kept by run_report, written by run_json.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run/run.hpp"

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <utility>

#include "exec/device/cores.hpp"
#include "exec/processes/process_run.hpp"
#include "exec/processes/threads/threaded_run.hpp"
#include "exec/training/trainable.hpp"
#include "plan/words/error.hpp"
#include "tools/app/machine/host.hpp"
#include "tools/app/run/progress_file.hpp"
#include "tools/app/run/run_identity.hpp"
#include "tools/app/run/run_options.hpp"
#include "tools/app/run/run_report.hpp"
#include "tools/app/shared/folder_lock.hpp"
#include "tools/report/picture_file.hpp"

namespace weir::app {
namespace {

constexpr std::pair<double, double> kStepsOrNone{0, 1'000'000};

using Execute = std::function<weir::RunResult(const ResolvedPlan&, const RunOptions&)>;

// Everything but how the ranks are spread over processes, which `execute` knows.
RunResult run_plan(const RunRequest& r, const Session& session, bool leads,
                   const Execute& execute) {
  RunResult result{.backend = r.backend, .plan = load(r.plan, session), .leads = leads};
  const ResolvedPlan& loaded = result.plan.loaded;
  require_whole_vocabulary(loaded);  // before anything is said or locked
  RunOptions options = run_options(r, loaded, session, leads);
  std::optional<FolderLock> lock;
  std::optional<ProgressFile> progress;  // goes before the lock does
  if (leads && r.output) {
    lock.emplace(*r.output);
    progress.emplace(*r.output, loaded.plan, r.backend);
    options.on_step = [&progress, tell = std::move(options.on_step)](const StepReport& report) {
      tell(report);
      progress->tell(report);
    };
  }
  const Watch watch;
  result.run = execute(loaded, options);
  progress.reset();
  if (leads) report(result, r, watch.until_now(), session);
  return result;
}

RunResult run_alone(const RunRequest& r, const Session& session) {
  return run_plan(r, session, true, [&](const ResolvedPlan& loaded, const RunOptions& options) {
    const Plan& plan = loaded.plan;
    const int devices = plan.pp * plan.tp * plan.dp;
    const bool trains = options.backend == BackendKind::cpu;
    if (trains) require_trainable(loaded, Replicas::many, options.backend);  // before any word
    if (trains && devices > available_cores()) {
      std::string product = fmt::format("K = {}", devices);
      if (plan.tp * plan.dp > 1)
        product = fmt::format("K * T * D = {} * {} * {}", plan.pp, plan.tp, plan.dp);
      session.note(
          fmt::format("{} on {} cores: the result is oversubscribed and compares with nothing",
                      product, available_cores()));
    }
    // As late as possible: work that begins after the wait is not seen by it.
    wait_for_quiet(r.quiet, session, r.stopping);
    return run_in_one_process(loaded, options, available_backends());
  });
}

// As one of several processes, which end together.
RunResult run_with_others(const RunRequest& r, const Session& session, TransportKind transport) {
  if (r.kernels)
    throw UsageError("--kernels records the ranks of one process: leave out --transport");
  if (r.quiet.limit_s)
    throw UsageError("--wait-for-quiet waits for one process's cores: leave out --transport");
  const ProcessSession joined = open_session(transport, r.processes, session);
  Processes& processes = *joined.processes;
  const bool leads = processes.index() == 0;
  const auto execute = [&](const ResolvedPlan& loaded, const RunOptions& options) {
    // Before anything is trained: processes with other options would compute something else
    // together.
    require_agreement(processes, what_is_run(loaded, options));
    weir::RunResult result =
        run_as_process(loaded, options, available_backends(), processes, joined.links);
    if (leads && result.oversubscribed) {
      session.note(
          fmt::format("fewer {} than processes: the result is oversubscribed and "
                      "compares with nothing",
                      options.backend == BackendKind::cuda ? "GPUs" : "cores"));
    }
    return result;
  };
  // Whoever fails concludes with its own ending, those it stopped with none, and all get the same:
  // without that the others would wait for messages that never come.
  try {
    RunResult result = run_plan(r, session, leads, execute);
    // The leader's files are there before anyone leaves.
    processes.barrier();
    return result;
  } catch (const Transport::Stopped&) {
    throw EndedTogether(processes.conclude({}));
  } catch (...) {
    throw EndedTogether(processes.conclude(ending_of(std::current_exception())));
  }
}

}  // namespace

Fields fields(RunRequest& r) {
  Fields all{
      {"plan", &r.plan, "Plan file", {.required = true}},
      {"--backend", &r.backend, "cpu, cuda or synthetic (timed waits, no training)"},
      {"--steps",
       &r.steps,
       "Steps to train, the warm-up's among them; 0 trains nothing",
       {.range = kStepsOrNone}},
      {"--warmup", &r.warmup, "The first of them, not measured", {.range = kStepsOrNone}},
      {"--data", &r.data,
       "Any file, as bytes, or what else the model's samples are read from, in an order by the "
       "seed; repeatable (default: seeded synthetic samples)"},
      {"--init", &r.init,
       "Weights to begin with: safetensors as Hugging Face has them, their index, or a folder of "
       "them (default: by the seed)"},
      {"--save",
       &r.save,
       "File for the weights at the end, safetensors with Hugging Face's names",
       {.writes = Writes::file}},
      {"--dump",
       &r.dump,
       "File for the last step's gradients and logits, safetensors (backend cpu)",
       {.writes = Writes::file}},
      {"--checkpoint-every",
       &r.checkpoint_every,
       "Write a checkpoint to OUTPUT/checkpoints after every so many steps and the last (0: never)",
       {.range = kStepsOrNone}},
      {"--resume", &r.resume,
       "Go on from a checkpoint, or from the newest whole one of a run's folder: losses and "
       "weights are, bit by bit, those of a run that was never stopped, whatever K, partition, "
       "schedule of one direction and number of processes"},
      {"--restart", &r.restart,
       "Begin anew in a folder that holds another run's checkpoints, and remove those first"},
      {"--evaluate", &r.evaluate,
       "Any file, as bytes, of whose whole mini-batches the loss is taken at the end, without "
       "dropout"},
      {"--fastest", &r.fastest,
       "cuda: matrix products by what is fastest for this K (parameters are then no longer equal "
       "over K)"},
      {"--costs", &r.costs,
       "Costs that give the synthetic backend its durations (default: built in)"},
      {"--graphs", &r.graphs,
       "Launch the step as one CUDA graph, from the second on (backend cuda; at K = 1 that is so "
       "where CUDA captures it)"},
      {"--launched", &r.launched, "cuda: launch every action by itself, at K = 1 too"},
      {"--kernels", &r.kernels,
       "cuda: record which kernels run in each action (CUPTI), for a table and, with -o, "
       "kernels.json; launching is slower then"},
      {"-o,--output",
       &r.output,
       "Folder for run.json and the measured trace",
       {.writes = Writes::folder}},
      {"--svg,--pdf",
       &r.picture,
       "Write the losses by step as a picture (.svg or .pdf), its data beside it as NAME.data.csv; "
       "of a run that goes on, with those of the run before it",
       {.writes = Writes::file, .with_it = &data_file}}};
  all.push_back({"--longest-action",
                 &r.longest_action_s,
                 "Seconds after which an action that has not ended hangs, and the run ends",
                 {.range = {{0.01, 1e6}}}});
  append(all, fields(r.quiet));
  append(all, fields(r.processes));
  return all;
}

void require_kept(const RunResult& result) {
  if (result.run.not_kept)
    throw RunFailed(*result.run.not_kept + "; what else the run made is kept");
}

RunResult run(const RunRequest& r, const Session& session) {
  const TransportKind transport = choose_transport(r.processes);
  return transport == TransportKind::threads ? run_alone(r, session)
                                             : run_with_others(r, session, transport);
}

}  // namespace weir::app
