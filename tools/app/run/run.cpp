// Training steps of a plan, their records written by the process that leads.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run/run.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "exec/device/cores.hpp"
#include "exec/processes/process_run.hpp"
#include "exec/processes/threads/threaded_run.hpp"
#include "exec/training/trainable.hpp"
#include "plan/job/summary.hpp"
#include "plan/text/new_file.hpp"
#include "plan/words/figures.hpp"
#include "tools/app/machine/host.hpp"
#include "tools/app/run/kernels_json.hpp"
#include "tools/app/run/loss_picture.hpp"
#include "tools/app/run/synthetic.hpp"
#include "tools/app/shared/memory_need.hpp"
#include "tools/app/shared/picture.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/app/shared/traced_plan.hpp"
#include "traces/chrome_json.hpp"

namespace weir::app {
namespace {

constexpr Seconds kLongWait(1);  // of a run without work: people are told

constexpr std::pair<double, double> kStepsOrNone{0, 1'000'000};

using Execute = std::function<weir::RunResult(const ResolvedPlan&, const RunOptions&)>;

// Writes into the measured trace where it was made.
void label(RunResult& result) {
  weir::RunResult& run = result.run;
  auto& info = run.trace.info;
  info["machine"] = machine_name(parse_backend(result.backend));
  info["version"] = WEIR_VERSION;
  info["backend"] = result.backend;
  info["seed"] = std::to_string(result.plan.loaded.plan.seed);
  if (!run.devices.empty()) info["sharing"] = run.devices.front().sharing;
  if (run.oversubscribed) info["label"] = "oversubscribed";
  if (run.kernels) info["kernels"] = "recorded, which slows launches";
}

// What disturbed the run, said and written into its trace.
void judge(RunResult& result, Disturbance disturbance, const Session& session) {
  Trace& trace = result.run.trace;
  // Ranks that outnumber the cores take them from each other, which is said already.
  if (result.run.oversubscribed) disturbance.preemptions_per_s = 0;
  if (!trace.steps.empty()) put_disturbance(trace, disturbance);
  disturbance.spread = disturbance_of(trace).spread;
  note_disturbance(disturbance, "the times of its steps are of this and not of the plan", session);
  result.disturbance = disturbance;
}

void save(const RunResult& result, const std::filesystem::path& folder, const Session& session) {
  NewFiles written;
  if (!result.run.trace.steps.empty()) {
    add_traced_plan(written, result.run.trace, moved_to(result.plan, folder), folder,
                    {folder, "measured"}, session);
  }
  if (result.run.kernels) {
    written.add(session.output(folder / "kernels.json"),
                to_chrome_json(result.run.trace, result.run.kernels->spans));
  }
  // Last: where it is there, all else is, and of the same run.
  written.add(session.output(folder / "run.json"), to_json(result).dump(2) + "\n");
  written.commit();
}

// "step 12 of 100  loss 3.456789  gradient norm 0.8123  12345 tokens/s  1 min 05 s left"; of
// samples that are no sequences samples/s. What trains nothing has no loss, and the norm is said
// where gradients are clipped.
std::string status_line(const StepReport& report, const Plan& plan, BackendKind backend) {
  const bool sequences = plan.seq_length > 0;
  const auto samples = static_cast<double>(plan.global_batch_size());
  const double units = sequences ? samples * static_cast<double>(plan.seq_length) : samples;
  const auto left = std::lround(report.time.count() * (report.of - report.done));
  std::string line =
      fmt::format("step {} of {}", report.step, report.step + report.of - report.done);
  if (backend != BackendKind::synthetic) line += fmt::format("  loss {:.6f}", report.loss);
  if (report.gradient_norm) line += "  gradient norm " + format_figure(*report.gradient_norm, 4);
  if (report.time.count() > 0) {
    line +=
        fmt::format("  {:.0f} {}/s", units / report.time.count(), sequences ? "tokens" : "samples");
  }
  return line + (left < 60 ? fmt::format("  {} s left", left)
                           : fmt::format("  {} min {:02} s left", left / 60, left % 60));
}

std::string stopped_line(const weir::RunResult& run) {
  const std::int64_t trained = run.first_step + static_cast<std::int64_t>(run.steps.size());
  std::string line = fmt::format("stopped after step {}", trained);
  if (!run.checkpoints.empty() && run.checkpoints.back().step == trained)
    line += fmt::format("; --resume {} goes on", run.checkpoints.back().folder.string());
  return line;
}

std::optional<std::filesystem::path> written(const std::optional<std::filesystem::path>& file,
                                             const Session& session) {
  if (file) static_cast<void>(session.output(*file));
  return file;
}

Graphs graphs_of(const RunRequest& r) {
  if (r.graphs && r.launched) throw UsageError("--graphs and --launched exclude each other");
  if (r.graphs) return Graphs::always;
  return r.launched ? Graphs::never : Graphs::where_possible;
}

// Everything but how the ranks are spread over processes, which `execute` knows.
RunResult run_plan(const RunRequest& r, const Session& session, bool leads,
                   const Execute& execute) {
  RunResult result{.backend = r.backend, .plan = load(r.plan, session), .leads = leads};
  const ResolvedPlan& loaded = result.plan.loaded;
  RunOptions options{.backend = parse_backend(r.backend),
                     .steps = r.steps,
                     .warmup_steps = r.steps == 0 ? 0 : r.warmup,
                     .data = r.data,
                     .init = r.init,
                     .save = written(r.save, session),
                     .dump = written(r.dump, session),
                     .evaluate = r.evaluate,
                     .fastest = r.fastest,
                     .graphs = graphs_of(r),
                     .kernels = r.kernels,
                     .output = r.output,
                     .checkpoint_every = r.checkpoint_every,
                     .resume = r.resume};
  const bool trains = options.backend == BackendKind::cpu;
  if (leads) say_need_of_run(loaded, r.steps, trains, session);
  const Plan& plan = loaded.plan;
  if (leads && (!plan.placement.empty() || plan.rank_order != RankOrder::tp_cp_dp_pp)) {
    session.note(
        "placement and rank_order of the plan are not followed: processes run where they are "
        "started, replica after replica");
  }
  if (options.backend == BackendKind::synthetic) {
    SyntheticStep step = synthetic_step(loaded, r.costs);
    options.synthetic_duration_ns = std::move(step.duration_ns);
    const int steps = options.steps + options.warmup_steps;
    if (leads && step.time * steps >= kLongWait) {
      session.log(fmt::format("waits some {}: {} steps of {}", format_duration(step.time * steps),
                              steps, format_duration(step.time)));
    }
  }
  static_cast<void>(written(r.picture, session));
  if (r.picture && (options.backend == BackendKind::synthetic || r.steps == 0))
    throw UsageError("--svg draws losses of steps that train: here are none");
  if (r.checkpoint_every > 0 && !r.output)
    throw UsageError("--checkpoint-every needs --output, the folder for checkpoints");
  options.hangs = r.hangs;
  options.longest_action = Seconds(r.longest_action_s);
  if (r.stopping) static_cast<void>(r.stopping());  // a launcher tells all processes: all listen
  if (leads) {
    options.on_step = [&](const StepReport& report) {
      session.progress(status_line(report, loaded.plan, options.backend), report.done, report.of);
    };
    options.stop = r.stopping;
  }
  const Watch watch;
  result.run = execute(loaded, options);
  if (!leads) return result;
  judge(result, watch.until_now(), session);
  if (result.run.stopped) {
    session.progress("run", 1, 1);  // wipes the bar
    session.note(stopped_line(result.run));
  }
  if (result.run.graph_refused) {
    session.note(fmt::format("the step is launched action by action, not as one graph: {}",
                             *result.run.graph_refused));
  }
  label(result);
  if (r.picture) {  // before the folder that this run goes on from may be its own
    const Chart chart = loss_chart(result.run, summary(loaded.plan));
    save_picture(draw_chart(chart), chart_csv(chart), *r.picture, session);
  }
  if (r.output) save(result, *r.output, session);
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
    weir::RunResult result =
        run_as_process(loaded, options, available_backends(), processes, joined.links);
    if (leads && result.oversubscribed) {
      session.note(
          "fewer cores than processes: the result is oversubscribed and compares with nothing");
    }
    return result;
  };
  // Whoever fails concludes with its own ending, those it stopped with none, and all get the same:
  // without that the others would wait for messages that never come.
  try {
    RunResult result = run_plan(r, session, leads, execute);
    processes.barrier();
    return result;
  } catch (const Transport::Stopped&) {
    throw EndedTogether(processes.conclude({}));
  } catch (...) {
    throw EndedTogether(processes.conclude(ending_of(std::current_exception())));
  }
}

// What the driver says of each rank's share of a GPU.
void add_devices(nlohmann::ordered_json& json, const std::vector<DeviceUse>& ranks) {
  json["sharing"] = ranks.front().sharing;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const DeviceUse& use = ranks[rank];
    nlohmann::ordered_json& row = json["ranks"][rank];
    row["device"] = use.device;
    row["multiprocessors"] = use.multiprocessors;
    row["pool_peak_bytes"] = use.pool_peak.count();
    row["pool_reserved_bytes"] = use.pool_reserved.count();
    if (!use.attention.empty()) row["fused_attention"] = use.attention;
    if (!use.products.empty()) row["products"] = use.products;
  }
  json["devices"] = nlohmann::ordered_json::array();
  for (const Bytes outside : outside_the_pools(ranks)) {
    json["devices"].push_back(
        {{"device", json["devices"].size()}, {"outside_pools_bytes", outside.count()}});
  }
}

}  // namespace

Fields fields(RunRequest& r) {
  Fields all{
      {"plan", &r.plan, "Plan file", {.required = true}},
      {"--backend", &r.backend, "cpu, cuda or synthetic (timed waits, no training)"},
      {"--steps", &r.steps, "Measured steps; 0 trains nothing", {.range = kStepsOrNone}},
      {"--warmup",
       &r.warmup,
       "Steps before them, trained but not measured",
       {.range = kStepsOrNone}},
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
       "schedule and number of processes"},
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
       {.writes = Writes::file}}};
  all.push_back({"--longest-action",
                 &r.longest_action_s,
                 "Seconds after which an action that has not ended hangs, and the run ends",
                 {.range = {{0.01, 1e6}}}});
  append(all, fields(r.quiet));
  append(all, fields(r.processes));
  return all;
}

RunResult run(const RunRequest& r, const Session& session) {
  const TransportKind transport = choose_transport(r.processes);
  return transport == TransportKind::threads ? run_alone(r, session)
                                             : run_with_others(r, session, transport);
}

nlohmann::ordered_json to_json(const RunResult& result) {
  if (!result.leads) return nullptr;
  const weir::RunResult& run = result.run;
  nlohmann::ordered_json json{{"schema", "weir.run/1"},
                              {"backend", result.backend},
                              {"first_step", run.first_step},
                              {"steps", nlohmann::ordered_json::array()}};
  const bool trains = parse_backend(result.backend) != BackendKind::synthetic;
  for (const StepResult& step : run.steps) {
    json["steps"].push_back(
        {{"loss", trains ? nlohmann::ordered_json(step.loss) : nlohmann::ordered_json(nullptr)},
         {"time_s", step.time.count()},
         {"allocations", step.allocations}});
    if (step.gradient_norm) json["steps"].back()["gradient_norm"] = *step.gradient_norm;
  }
  if (run.stopped) json["stopped"] = true;
  if (run.resumed) json["resumed"] = run.resumed->string();
  for (const CheckpointWritten& written : run.checkpoints) {
    json["checkpoints"].push_back({{"step", written.step},
                                   {"folder", written.folder.string()},
                                   {"time_s", written.time.count()}});
  }
  if (run.evaluation) {
    json["evaluation"] = {{"loss", run.evaluation->loss},
                          {"samples", run.evaluation->samples},
                          {"tokens", run.evaluation->tokens}};
  }
  json["step_time_s"] = run.step_time.count();
  json["parameters_sha256"] = nullptr;
  if (!run.parameters_sha256.empty()) json["parameters_sha256"] = run.parameters_sha256;
  json["oversubscribed"] = run.oversubscribed;
  json["disturbance"] = weir::to_json(result.disturbance);
  if (run.host_per_action) json["host_s_per_action"] = run.host_per_action->count();
  if (run.host_per_action) json["graph"] = run.graph;
  if (run.graph_refused) json["graph_refused"] = *run.graph_refused;
  json["ranks"] = nlohmann::ordered_json::array();
  for (int rank = 0; rank < run.trace.ranks; ++rank) {
    nlohmann::ordered_json peak = nullptr;
    if (!run.peak_memory.empty()) peak = run.peak_memory[static_cast<std::size_t>(rank)].count();
    json["ranks"].push_back({{"rank", rank}, {"peak_memory_bytes", peak}});
  }
  if (!run.devices.empty()) add_devices(json, run.devices);
  if (run.kernels) json["kernels"] = kernels_json(run.trace, *run.kernels);
  return json;
}

}  // namespace weir::app
