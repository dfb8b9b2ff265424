// Plans and what was measured of them, made into anchored costs.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/calibrate/anchoring.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "costmodel/fit/anchor.hpp"
#include "plan/job/assumed_stack.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/app/calibrate/fit_doubts.hpp"
#include "tools/app/calibrate/likelier_software.hpp"
#include "tools/app/compare/measured_figure.hpp"
#include "tools/app/jobs/import.hpp"
#include "tools/app/shared/source.hpp"
#include "traces/stats.hpp"

namespace weir::app {
namespace {

struct AnchoringRun {
  MeasuredFigure figure;
  ResolvedPlan plan;
  Costs builtin;
  Forecast forecast;  // by what is built in
};

Forecast forecast_of(const ResolvedPlan& plan, const Costs& costs, const Cluster& cluster) {
  return weir::forecast(plan, costs, cluster, {.detail = ForecastDetail::ranking}).forecast;
}

AnchoringRun run_of(const std::string& text, const Session& session) {
  AnchoringRun run{.figure = parse_figure(text, "--measured")};
  session.guard(run.figure.plan);
  run.plan = load(PlanSource(run.figure.plan), session).loaded;
  return run;
}

// The software of the plans' jobs, where they are all of one.
std::string stack_of_jobs(const std::vector<AnchoringRun>& runs) {
  std::string stack = stack_of(runs.front().plan.plan.job);
  for (const AnchoringRun& run : runs)
    if (stack_of(run.plan.plan.job) != stack) return {};
  return stack;
}

void forecast_builtin(AnchoringRun& run, const std::string& text, const Cluster& cluster,
                      const Session& session) {
  const std::string file = run.figure.plan.string();
  const Plan& plan = run.plan.plan;
  // A plan that the cluster cannot hold was not measured on it.
  if (plan.devices() > cluster.devices()) {
    throw InputError(
        file, "",
        fmt::format("K tp cp dp = {} {} {} {} needs {} devices, {} has {}", plan.pp, plan.tp,
                    plan.cp, plan.dp, plan.devices(), cluster.name, cluster.devices()));
  }
  // A driver may count a little more than the data sheet has; much more is another device's, or a
  // sum over several.
  constexpr double kCounted = 1.1;
  const Bytes most = cluster.largest_memory();
  const Bytes measured = run.figure.memory.value_or(Bytes(0));
  if (most.count() > 0 &&
      static_cast<double>(measured.count()) > kCounted * static_cast<double>(most.count())) {
    throw UsageError(fmt::format("--measured {}: {} is more than the {} of a device of {}", text,
                                 format_bytes(measured), format_bytes(most), cluster.name));
  }
  if (run.figure.log) {
    require_same_job(*run.figure.log, run.plan, file);
    session.note(fmt::format("{}: {}", text, told(*run.figure.log)));
  }
  // A rate that counts half of the attention is brought to the forecast's way of counting.
  if (const auto counted = count_whole(run.figure, run.plan)) session.note(*counted);
  run.builtin = load(CostsSource(), run.plan.model, plan, cluster);
  run.forecast = forecast_of(run.plan, run.builtin, cluster);
}

// Equal but for how many micro-batches and replicas there are.
bool same_family(const Plan& a, const Plan& b) {
  Plan like = a;
  like.microbatches = b.microbatches;
  like.dp = b.dp;
  like.slots = b.slots;
  like.seed = b.seed;
  like.note = b.note;
  like.model_path = b.model_path;  // of the model there is a hash
  return like == b;
}

int family_of(const std::vector<AnchoringRun>& runs, std::size_t of) {
  const auto first = std::ranges::find_if(runs, [&](const AnchoringRun& other) {
    return same_family(runs[of].plan.plan, other.plan.plan);
  });
  return static_cast<int>(first - runs.begin());
}

MeasuredStep step_of(const std::vector<AnchoringRun>& runs, std::size_t i, const Cluster& cluster) {
  const AnchoringRun& run = runs[i];
  const auto time = step_time_of(run.figure, run.forecast, run.plan.plan.devices());
  if (!time) {
    throw InputError(run.figure.plan.string(), "",
                     fmt::format("has no such rate as {}; give its step time", run.figure.text));
  }
  // A forecast each time factors are tried: what they do to a step depends on its longest path.
  return {.step_time = *time,
          .memory = run.figure.memory,
          .family = family_of(runs, i),
          .forecast = [&run, &cluster](const AnchorFactors& factors) {
            Costs costs = run.builtin;
            set_anchor(costs, {.factors = factors});
            const Forecast f = forecast_of(run.plan, costs, cluster);
            return MeasuredStep::Prediction{f.step_time, f.peak_memory(run.figure.memory_count)};
          }};
}

// One line for each factor: how many runs it was fitted to, and how far they are off in the median.
std::vector<FitQuality> quality_of(const AnchorFit& fit) {
  const auto row = [](const char* kind, double factor, std::vector<double> residuals) {
    // What was learnt upwards or downwards is the same miss.
    for (double& residual : residuals) residual = std::abs(residual);
    const auto count = static_cast<int>(residuals.size());
    return FitQuality{kind, factor, count, median(std::move(residuals))};
  };
  std::vector<FitQuality> quality{row("compute", fit.factors.compute, fit.residuals),
                                  row("messages", fit.factors.messages, fit.residuals),
                                  row("per step", fit.factors.step, fit.residuals)};
  std::vector<double> memory;
  for (const auto& residual : fit.memory_residuals) {
    if (residual) memory.push_back(*residual);
  }
  if (!memory.empty()) quality.push_back(row("memory", fit.factors.memory, std::move(memory)));
  return quality;
}

LayoutWords words_of(const Plan& plan) { return layout_words(plan, plan.model_sha256); }

CostAnchor anchor_of(const std::vector<AnchoringRun>& runs, const std::vector<MeasuredStep>& steps,
                     const AnchorFit& fit, const Cluster& cluster) {
  CostAnchor anchor{.factors = fit.factors,
                    .cluster = cluster.name,
                    .device = cluster.device.name,
                    .stack = cluster.stack.name,
                    .stack_named = !is_assumed(cluster.stack)};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    anchor.runs.push_back({.plan = runs[i].figure.plan.string(),
                           .figure = runs[i].figure.text,
                           .step_time = steps[i].step_time,
                           .memory = steps[i].memory,
                           .residual = fit.residuals[i],
                           .memory_residual = fit.memory_residuals[i],
                           .words = words_of(runs[i].plan.plan)});
  }
  return anchor;
}

void note_likelier_software(const std::vector<AnchoringRun>& runs,
                            const std::vector<MeasuredStep>& steps, const Cluster& cluster,
                            const Session& session) {
  std::vector<MeasuredPlan> plans;
  for (std::size_t i = 0; i < runs.size(); ++i)
    plans.push_back({&runs[i].plan, steps[i].step_time, runs[i].forecast.step_time});
  if (const auto line = likelier_software(plans, cluster)) session.note(*line);
}

void note_contradictions(const CostAnchor& anchor, const Session& session) {
  for (const AnchorRun& run : anchor.runs) {
    const auto contradicts = [&](const char* what, double residual) {
      if (std::abs(residual) <= kContradiction) return;
      session.note(fmt::format(
          "{}={} contradicts the other figures: its {} is {:+.1f} % off what fits them all, more "
          "than the {:.0f} % that repeats scatter",
          run.plan, run.figure, what, 100 * std::expm1(residual), 100 * kContradiction));
    };
    contradicts("step", run.residual);
    if (run.memory_residual) contradicts("memory", *run.memory_residual);
  }
}

}  // namespace

Calibration anchor_costs(const std::vector<std::string>& figures, MachineChoice choice,
                         std::optional<int> gpus, const Session& session) {
  std::vector<AnchoringRun> runs;
  for (const std::string& text : figures) runs.push_back(run_of(text, session));
  choice.job_stack = stack_of_jobs(runs);
  const Cluster cluster = machine(choice, gpus, session);
  for (std::size_t i = 0; i < runs.size(); ++i)
    forecast_builtin(runs[i], figures[i], cluster, session);
  std::vector<MeasuredStep> steps;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    steps.push_back(step_of(runs, i, cluster));
    doubt_far_figure(figures[i], steps[i].step_time / runs[i].forecast.step_time, session);
  }
  note_likelier_software(runs, steps, cluster, session);
  const AnchorFit fit = fit_anchor(steps);
  Calibration result{.costs = runs.front().builtin, .quality = quality_of(fit)};
  Costs& costs = result.costs;
  costs.basis = Basis::anchored;
  costs.anchor = anchor_of(runs, steps, fit, cluster);
  costs.origin = fmt::format("{}, anchored to {} measured {} of {}", costs.origin, runs.size(),
                             runs.size() == 1 ? "step" : "steps", cluster.name);
  // Anchored costs are the built-in ones and factors: they are made anew for each plan.
  costs.layers.clear();
  costs.other_kinds.clear();
  // Runs that no factors bring together say that something else differs among them.
  note_contradictions(*costs.anchor, session);
  return result;
}

}  // namespace weir::app
