// `weir calibrate`: fits the cost model to measured traces; prints what it fitted and how well.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/calibrate.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <list>
#include <memory>

#include "plan/error.hpp"
#include "plan/text_file.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/host.hpp"
#include "tools/weir/traced_plan.hpp"

namespace weir {

void add_calibrate_command(CLI::App& app, GlobalOptions& global) {
  struct Options {
    std::vector<std::filesystem::path> traces;
    std::filesystem::path costs, output = "costs.json";
    std::optional<std::filesystem::path> cluster;
  };
  CLI::App* command = app.add_subcommand("calibrate", "Fit the cost model to measured traces");
  auto o = std::make_shared<Options>();
  command->add_option("traces", o->traces, "Traces of runs (trace.json)")->required();
  command->add_option("--costs", o->costs, "The profile to start from")->required();
  command->add_option("--cluster", o->cluster, "Cluster file (default: this machine)");
  command->add_option("-o,--output", o->output, "Costs file")->capture_default_str();
  command->callback([o, &global] {
    std::list<TracedPlan> kept;  // stable addresses
    std::vector<CalibrationRun> runs;
    for (const auto& file : o->traces) {
      kept.push_back(load_traced_plan(file));
      if (kept.back().trace.origin != TraceOrigin::measured)
        throw InputError(file.string(), "weir.origin", "expected a measured trace");
      runs.push_back({&kept.back().plan, &kept.back().trace});
    }
    const Calibration fit = calibrate(load_costs(o->costs), runs, cluster_or_host(o->cluster));
    save_costs(fit.costs, o->output);
    if (global.json) {
      fmt::print("{}", read_text_file(o->output));
      return;
    }
    fmt::print("{:<18} {:>8} {:>13} {:>16}\n", "action", "factor", "observations", "median residual");
    for (const FitQuality& q : fit.quality) {
      fmt::print("{:<18} {:>8.3f} {:>13} {:>15.2f}%\n", q.kind, q.factor, q.observations, q.median_residual * 100);
    }
    fmt::print("host overhead {}, step overhead {}\n{}\n", format_duration(fit.costs.host_overhead),
               format_duration(fit.costs.step_overhead), o->output.string());
  });
}

}  // namespace weir
