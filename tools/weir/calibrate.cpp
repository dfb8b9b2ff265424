// `weir calibrate`: fits the cost model to measured traces; prints what it fitted and how well.
// Links alone come from nccl-tests and nvidia-smi (tools/weir/calibrate_links).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/fit/calibrate.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <list>
#include <memory>
#include <utility>

#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/weir/calibrate_links.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/host.hpp"
#include "tools/weir/kineto_run.hpp"
#include "tools/weir/options.hpp"
#include "tools/weir/traced_plan.hpp"

namespace weir {

void add_calibrate_command(CLI::App& app, GlobalOptions& global) {
  struct Options {
    std::vector<std::filesystem::path> traces;
    std::optional<std::filesystem::path> costs;
    std::filesystem::path output = "costs.json";
    std::optional<std::filesystem::path> cluster;
    LinkCalibration links;
    KinetoOptions kineto;
  };
  CLI::App* command = app.add_subcommand("calibrate", "Fit the cost model to measured traces");
  auto o = std::make_shared<Options>();
  command->add_option("traces", o->traces,
                      "Traces of runs (trace.json); with --plan, PyTorch profiler files of one");
  command->add_option("--costs", o->costs,
                      "The profile to start from (with --plan, default: the --cluster's rates)");
  add_kineto_options(*command, o->kineto);
  command->add_option("--cluster", o->cluster, "Cluster file (default: this machine)");
  command->add_option("-o,--output", o->output, "Costs file")->capture_default_str();
  command->add_option("--nccl", o->links.nccl, "Output of nccl-tests, text or JSON: fits links");
  command->add_option("--topo", o->links.topology,
                      "Output of nvidia-smi topo -m: devices a node and NVLinks");
  command->callback([o, command, &global] {
    if (!o->links.nccl.empty() || o->links.topology) {
      if (!o->traces.empty()) throw UsageError("--nccl and --topo are read alone, without traces");
      o->links.cluster = o->cluster;
      o->links.costs = o->costs;
      o->links.output = o->cluster && command->count("--output") == 0 ? "cluster.json" : o->output;
      return calibrate_links(o->links, global);
    }
    if (o->traces.empty() || (!o->costs && !(o->kineto.plan && o->cluster)))
      throw UsageError(
          "expected traces and --costs, traces with --plan and --cluster, or --nccl or --topo");
    std::list<TracedPlan> kept;  // stable addresses
    std::vector<CalibrationRun> runs;
    if (o->kineto.plan) {
      kept.push_back(load_kineto_run(o->kineto, std::exchange(o->traces, {}), global));
      runs.push_back({&kept.back().plan, &kept.back().trace});
    }
    for (const auto& file : o->traces) {
      kept.push_back(load_traced_plan(file));
      if (kept.back().trace.origin != TraceOrigin::measured)
        throw InputError(file.string(), "weir.origin", "expected a measured trace");
      require_comparable(kept.back().trace, file);
      runs.push_back({&kept.back().plan, &kept.back().trace});
    }
    const Cluster cluster = cluster_or_host(o->cluster);
    const ResolvedPlan& first = *runs.front().plan;
    Calibration fit =
        calibrate(costs_or_builtin(o->costs, first.model, first.plan, cluster), runs, cluster);
    if (o->kineto.plan) fit_link_of_run(kept.front(), fit.costs, global);
    save_costs(fit.costs, o->output);
    if (global.json) {
      fmt::print("{}", read_text_file(o->output));
      return;
    }
    fmt::print("{:<18} {:>8} {:>13} {:>16}\n", "action", "factor", "observations",
               "median residual");
    for (const FitQuality& q : fit.quality) {
      fmt::print("{:<18} {:>8.3f} {:>13} {:>15.2f}%\n", q.kind, q.factor, q.observations,
                 q.median_residual * 100);
    }
    fmt::print("host overhead {}, step overhead {}\n{}\n", format_duration(fit.costs.host_overhead),
               format_duration(fit.costs.step_overhead), o->output.string());
  });
}

}  // namespace weir
