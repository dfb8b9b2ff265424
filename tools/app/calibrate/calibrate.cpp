// Costs fitted to runs: of our own traces, of PyTorch's, or of a figure each.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/calibrate/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/words/error.hpp"
#include "tools/app/calibrate/anchoring.hpp"
#include "tools/app/calibrate/fit_doubts.hpp"
#include "tools/app/machine/watch.hpp"
#include "tools/app/shared/traced_plan.hpp"

namespace weir::app {
namespace {

using Path = std::filesystem::path;

// What people call a trace of the request.
Path name_of(const CalibrateRequest& r, std::size_t trace) {
  const auto* file = std::get_if<Path>(&r.traces[trace]);
  return file != nullptr ? *file : Path("traces[" + std::to_string(trace) + "]");
}

LinkRequest link_request(const CalibrateRequest& r, const Session& session) {
  if (!r.traces.empty()) {
    throw UsageError(
        fmt::format("{}: --nccl and --topo are read alone, without traces; each file "
                    "of nccl-tests has an --nccl of its own",
                    name_of(r, 0).string()));
  }
  LinkRequest links{.nccl = r.nccl, .topology = r.topology, .cluster = r.cluster};
  if (const auto* file = std::get_if<Path>(&r.costs)) links.costs = *file;
  links.output = r.output;
  if (r.output && r.cluster && !session.given("output")) links.output = "cluster.json";
  return links;
}

// Says which of the traces were measured on a disturbed machine, and why the first is doubted.
void doubt_disturbed(const CalibrateRequest& r, const std::vector<PlannedTrace>& runs,
                     const Session& session) {
  std::string first, why;
  int doubted = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string its = doubt(disturbance_of(runs[i].trace));
    // One line for all: the first is told with its reason.
    if (its.empty() || ++doubted > 1) continue;
    first = name_of(r, i).string();
    why = its;
  }
  if (doubted == 0) return;
  session.note(
      fmt::format("{}{}: measured on a disturbed machine ({}), and what is learnt from it "
                  "is as doubtful",
                  first, doubted > 1 ? fmt::format(" and {} more", doubted - 1) : "", why));
}

// The measured runs of a request.
std::vector<PlannedTrace> runs_of(const CalibrateRequest& r, const Session& session) {
  std::vector<PlannedTrace> runs;
  if (is_given(r.kineto.plan)) {
    std::vector<Path> files;
    for (const TraceSource& source : r.traces) {
      const auto* file = std::get_if<Path>(&source);
      if (file == nullptr) throw UsageError("--plan: expected the files of PyTorch's profiler");
      files.push_back(*file);
    }
    runs.push_back(load_kineto_run(r.kineto, files, session));
    return runs;
  }
  for (std::size_t i = 0; i < r.traces.size(); ++i) {
    const Path name = name_of(r, i);
    runs.push_back(load_planned_trace(r.traces[i], session));
    if (runs.back().trace.origin != TraceOrigin::measured)
      throw InputError(name.string(), "weir.origin", "expected a measured trace");
    // An oversubscribed run compares with nothing.
    require_comparable(runs.back().trace, name);
  }
  return runs;
}

CalibrateResult anchored(const CalibrateRequest& r, const Session& session) {
  const bool alone = r.traces.empty() && r.nccl.empty() && !r.topology &&
                     std::holds_alternative<std::monostate>(r.costs) && !is_given(r.kineto.plan) &&
                     !r.kineto.save_trace;
  if (!alone)
    throw UsageError(
        "--measured anchors built-in costs: it takes --cluster, --gpus, --stack and --output "
        "alone");
  CalibrateResult result{.fit =
                             anchor_costs(r.measured, {r.cluster, r.stack, {}}, r.gpus, session)};
  if (r.output) save_costs(result.fit.costs, session.output(*r.output));
  return result;
}

}  // namespace

Fields fields(CalibrateRequest& r) {
  return {
      {"traces", &r.traces,
       "Traces of runs (trace.json); with --plan, PyTorch profiler files of one"},
      {"--costs", &r.costs,
       "The profile to start from (with --plan, default: the --cluster's rates)"},
      {"--plan", &r.kineto.plan, "The plan that PyTorch ran: the traces are its profiler's"},
      {"--save-trace",
       &r.kineto.save_trace,
       "With --plan: keep the measured trace (.json, for weir compare)",
       {.writes = Writes::file}},
      {"--cluster", &r.cluster, "Cluster file or name (default: this machine)"},
      stack_field(r.stack),
      gpus_field(r.gpus),
      {"-o,--output", &r.output, "Costs file", {.writes = Writes::file}},
      {"--nccl", &r.nccl, "Output of nccl-tests, text or JSON: fits links (repeatable)"},
      {"--topo", &r.topology, "Output of nvidia-smi topo -m: devices a node and NVLinks"},
      {"--measured", &r.measured,
       "PLAN=22.3s[,61GiB], PLAN=296.5TFLOPs (a device), PLAN=380ktok/s (the job), or PLAN= its "
       "log or trace: anchors the built-in costs of --cluster (repeatable)"}};
}

CalibrateResult calibrate(const CalibrateRequest& r, const Session& session) {
  if (!r.measured.empty()) return anchored(r, session);
  if (!r.nccl.empty() || r.topology)
    return {.links = calibrate_links(link_request(r, session), session)};
  // PyTorch's profiles do not say which plan they are of: the request does.
  const bool recorded = is_given(r.kineto.plan);
  if (r.kineto.save_trace && !recorded) throw UsageError("--save-trace needs --plan");
  const bool priced = !std::holds_alternative<std::monostate>(r.costs);
  if (r.traces.empty() || (!priced && !(recorded && r.cluster)))
    throw UsageError(
        "expected traces and --costs, traces with --plan and --cluster, --measured, or --nccl or "
        "--topo");
  const std::vector<PlannedTrace> kept = runs_of(r, session);
  doubt_disturbed(r, kept, session);
  const Cluster cluster = machine({r.cluster, r.stack, r.costs}, r.gpus, session);
  if (recorded && r.cluster) require_recorded_on(cluster.device, kept.front());
  std::vector<CalibrationRun> runs;
  for (const PlannedTrace& run : kept) runs.push_back({&run.plan->loaded, &run.trace});
  const ResolvedPlan& first = *runs.front().plan;
  const Costs base = load(r.costs, first.model, first.plan, cluster);
  CalibrateResult result{.fit = weir::calibrate(base, runs, cluster)};
  // A short run is disturbed by chance: no fit is doubted for it.
  const bool long_enough = std::ranges::any_of(
      kept, [](const auto& run) { return disturbance_of(run.trace).watched >= kLeastWatched; });
  if (base.basis == Basis::measured && long_enough)
    doubt_far_fits(result.fit.quality, kOtherWork, session);
  if (recorded) {
    if (base.basis != Basis::measured) doubt_far_fits(result.fit.quality, kOtherModel, session);
    // Profiles have messages of their own: the link is fitted to them.
    fit_link_of_run(kept.front(), result.fit.costs, session);
  }
  if (r.output) save_costs(result.fit.costs, session.output(*r.output));
  return result;
}

nlohmann::ordered_json to_json(const CalibrateResult& result) {
  return result.links ? to_json(*result.links) : weir::to_json(result.fit.costs);
}

}  // namespace weir::app
