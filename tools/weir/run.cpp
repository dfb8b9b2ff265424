// `weir run`: executes a plan.
// SPDX-License-Identifier: Apache-2.0
#include "exec/run/run.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "exec/device/cores.hpp"
#include "exec/processes/process_run.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/engine/event_engine.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/exit_code.hpp"
#include "tools/weir/host.hpp"
#include "tools/weir/kernels_json.hpp"
#include "tools/weir/options.hpp"
#include "tools/weir/process_session.hpp"
#include "tools/weir/progress.hpp"
#include "tools/weir/records_json.hpp"
#include "tools/weir/synthetic.hpp"
#include "tools/weir/traced_plan.hpp"
#include "traces/chrome_json.hpp"

namespace weir {
namespace {

// What the driver says of each rank's share of a GPU.
void add_devices(nlohmann::ordered_json& json, const std::vector<DeviceUse>& ranks) {
  json["sharing"] = ranks.front().sharing;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const DeviceUse& use = ranks[rank];
    json["ranks"][rank]["device"] = use.device;
    json["ranks"][rank]["multiprocessors"] = use.multiprocessors;
    json["ranks"][rank]["pool_peak_bytes"] = use.pool_peak.count();
    json["ranks"][rank]["pool_reserved_bytes"] = use.pool_reserved.count();
    if (!use.attention.empty()) json["ranks"][rank]["fused_attention"] = use.attention;
  }
  json["devices"] = nlohmann::ordered_json::array();
  for (const Bytes outside : outside_the_pools(ranks)) {
    json["devices"].push_back(
        {{"device", json["devices"].size()}, {"outside_pools_bytes", outside.count()}});
  }
}

nlohmann::ordered_json run_json(const RunResult& result, const std::string& backend) {
  nlohmann::ordered_json json{
      {"schema", "weir.run/1"}, {"backend", backend}, {"steps", nlohmann::ordered_json::array()}};
  for (const StepResult& step : result.steps)
    json["steps"].push_back(
        {{"loss", step.loss}, {"time_s", step.time.count()}, {"allocations", step.allocations}});
  json["step_time_s"] = result.step_time.count();
  json["parameters_sha256"] = result.parameters_sha256.empty()
                                  ? nlohmann::ordered_json(nullptr)
                                  : nlohmann::ordered_json(result.parameters_sha256);
  json["oversubscribed"] = result.oversubscribed;
  if (result.host_per_action) json["host_s_per_action"] = result.host_per_action->count();
  json["ranks"] = nlohmann::ordered_json::array();
  for (int rank = 0; rank < result.trace.ranks; ++rank) {
    nlohmann::ordered_json peak = nullptr;
    if (!result.peak_memory.empty())
      peak = result.peak_memory[static_cast<std::size_t>(rank)].count();
    json["ranks"].push_back({{"rank", rank}, {"peak_memory_bytes", peak}});
  }
  if (!result.devices.empty()) add_devices(json, result.devices);
  if (result.kernels) json["kernels"] = kernels_json(result.trace, *result.kernels);
  return json;
}

void print_devices(const std::vector<DeviceUse>& ranks) {
  fmt::print("{}; memory pools ", ranks.front().sharing);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    fmt::print("{}rank {} {}", rank == 0 ? "" : ", ", rank, format_bytes(ranks[rank].pool_peak));
  }
  if (!ranks.front().attention.empty())
    fmt::print("; fused attention: {}", ranks.front().attention);
  for (const Bytes outside : outside_the_pools(ranks)) {
    fmt::print("; {} outside them (context, libraries, others)", format_bytes(outside));
  }
  fmt::print("\n");
}

void print_run(const ResolvedPlan& loaded, const RunResult& result, const RunOptions& options) {
  fmt::print("{} on {}{}\n", summary(loaded.plan), to_string(options.backend),
             options.backend == BackendKind::synthetic ? " (timed waits, no training)" : "");
  for (std::size_t i = 0; i < result.steps.size(); ++i) {
    const char* kind = static_cast<int>(i) < options.warmup_steps ? " (warm-up)" : "";
    fmt::print("step {:>3}  loss {:.6f}  {}{}\n", i, result.steps[i].loss,
               format_duration(result.steps[i].time), kind);
  }
  fmt::print("median step {}", format_duration(result.step_time));
  for (std::size_t rank = 0; rank < result.peak_memory.size(); ++rank) {
    fmt::print("{}rank {} {}", rank == 0 ? ", peak memory " : ", ", rank,
               format_bytes(result.peak_memory[rank]));
  }
  fmt::print("\n");
  if (!result.devices.empty()) print_devices(result.devices);
  if (result.host_per_action) {
    fmt::print("host time to launch an action {:.2f} us{}\n", result.host_per_action->count() * 1e6,
               options.graphs ? " (the step is one graph)" : "");
  }
  if (!result.parameters_sha256.empty()) fmt::print("parameters {}\n", result.parameters_sha256);
  if (result.kernels) fmt::print("{}", kernels_text(result.trace, *result.kernels));
}

}  // namespace

std::string to_json(const RunResult& result, const std::string& backend) {
  return run_json(result, backend).dump(2);
}

void label(RunResult& result, const ResolvedPlan& loaded, const std::string& backend) {
  result.trace.info["machine"] = machine_name(parse_backend(backend));
  result.trace.info["version"] = WEIR_VERSION;
  result.trace.info["backend"] = backend;
  result.trace.info["seed"] = std::to_string(loaded.plan.seed);
  if (!result.devices.empty()) result.trace.info["sharing"] = result.devices.front().sharing;
  if (result.oversubscribed) result.trace.info["label"] = "oversubscribed";
  if (result.kernels) result.trace.info["kernels"] = "recorded, which slows launches";
}

namespace {

struct RunCommand {
  std::filesystem::path plan, output;
  std::string backend = "cpu";
  SessionOptions session;
  std::optional<std::filesystem::path> data, costs;
  int steps = 3, warmup = 1;
  bool fastest = false;
  bool graphs = false;
  bool kernels = false;
};

using Execute = std::function<RunResult(const ResolvedPlan&, const RunOptions&)>;

// Loads, runs and, where `speaks`, reports: everything but how the ranks are spread over processes.
void run_plan(const RunCommand& o, const GlobalOptions& global, bool speaks,
              const Execute& execute) {
  const ResolvedPlan loaded = load_plan(o.plan);
  RunOptions options;
  options.backend = parse_backend(o.backend);
  options.steps = o.steps;
  options.warmup_steps = o.warmup;
  options.data = o.data;
  options.graphs = o.graphs;
  options.fastest = o.fastest;
  options.kernels = o.kernels;
  if (options.backend == BackendKind::synthetic)
    options.synthetic_duration_ns = synthetic_durations(loaded, o.costs);
  ProgressBar bar("run", speaks && !global.quiet);
  options.progress = [&bar](int done, int of) { bar.show(done, of); };
  RunResult result = execute(loaded, options);
  if (!speaks) return;
  label(result, loaded, o.backend);
  const auto json = run_json(result, o.backend);
  if (!o.output.empty()) {
    write_file_atomically(o.output / "run.json", json.dump(2) + "\n");
    save_traced_plan(result.trace, loaded, o.plan.parent_path(), o.output, "measured");
    if (result.kernels) {
      write_file_atomically(o.output / "kernels.json",
                            to_chrome_json(result.trace, result.kernels->spans));
    }
  }
  if (global.json) {
    fmt::print("{}\n", json.dump(2));
  } else {
    print_run(loaded, result, options);
    if (!o.output.empty()) fmt::print("{}\n", o.output.string());
  }
}

void run_alone(const RunCommand& o, const GlobalOptions& global) {
  run_plan(o, global, true, [](const ResolvedPlan& loaded, const RunOptions& options) {
    if (options.backend == BackendKind::cpu && loaded.plan.pp > available_cores()) {
      fmt::print(
          stderr,
          "weir: K = {} on {} cores: the result is oversubscribed and compares with nothing\n",
          loaded.plan.pp, available_cores());
    }
    return run(loaded, options, available_backends());
  });
}

// As one of several processes, which end together: the leader has said why, the rest is an exit
// code.
void run_with_others(const RunCommand& o, const GlobalOptions& global, TransportKind transport) {
  if (o.kernels)
    throw UsageError("--kernels records the ranks of one process: leave out --transport");
  const ProcessSession session = open_session(transport, o.session);
  Processes& processes = *session.processes;
  const bool leads = processes.index() == 0;
  Ending ending;
  try {
    run_plan(o, global, leads, [&](const ResolvedPlan& loaded, const RunOptions& options) {
      RunResult result =
          run_as_process(loaded, options, available_backends(), processes, session.links);
      if (leads && result.oversubscribed) {
        fmt::print(stderr,
                   "weir: fewer cores than processes: the result is oversubscribed and compares "
                   "with nothing\n");
      }
      return result;
    });
    processes.barrier();
    return;
  } catch (const Transport::Stopped&) {
    ending = processes.conclude({});
  } catch (...) {
    ending = processes.conclude(ending_of(std::current_exception()));
  }
  throw CLI::RuntimeError(exit_code(ending.kind));
}

void add_session_options(CLI::App& command, SessionOptions& o) {
  command.add_option("--transport", o.transport,
                     "threads of one process; mpi: one process a rank, as mpirun or srun started "
                     "them (default where they started several); nccl: the same, and messages go "
                     "from GPU to GPU");
  command
      .add_option_function<double>(
          "--patience", [&o](const double& seconds) { o.patience = Seconds(seconds); },
          "Seconds without a sign of life after which a process counts as gone")
      ->check(CLI::Range(1.0, 1e6))
      ->default_str("10");
}

}  // namespace

void add_run_command(CLI::App& app, GlobalOptions& global) {
  CLI::App* command = app.add_subcommand("run", "Execute a plan: real training steps");
  auto o = std::make_shared<RunCommand>();
  command->add_option("plan", o->plan, "Plan file")->required();
  command->add_option("--backend", o->backend, "cpu, cuda or synthetic (timed waits, no training)")
      ->capture_default_str();
  command->add_option("--steps", o->steps, "Measured steps")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--warmup", o->warmup, "Steps before them, trained but not measured")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command->add_option("--data", o->data, "Any file, as bytes (default: seeded synthetic tokens)");
  command->add_flag("--fastest", o->fastest,
                    "cuda: matrix products by what is fastest for this K (parameters are then no "
                    "longer equal over K)");
  command->add_option("--costs", o->costs,
                      "Costs that give the synthetic backend its durations (default: built in)");
  command->add_flag("--graphs", o->graphs,
                    "Launch the step as one CUDA graph, from the second on (backend cuda)");
  command->add_flag("--kernels", o->kernels,
                    "cuda: record which kernels run in each action (CUPTI), for a table and, with "
                    "-o, kernels.json; "
                    "launching is slower then");
  command->add_option("-o,--output", o->output, "Folder for run.json and the measured trace");
  add_session_options(*command, o->session);
  command->callback([o, &global] {
    const TransportKind transport = choose_transport(o->session);
    if (transport == TransportKind::threads) {
      run_alone(*o, global);
    } else {
      run_with_others(*o, global, transport);
    }
  });
}

}  // namespace weir
