// What people read of `weir simulate`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/simulate/simulate.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "plan/words/figures.hpp"
#include "sim/forecast/training_cost.hpp"
#include "tools/app/schedule/timed_schedule.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/app/simulate/builtin_accuracy.hpp"
#include "tools/jobs/job/doubt.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/print/fit_text.hpp"
#include "tools/weir/print/printout.hpp"
#include "tools/weir/print/terminal_timeline.hpp"

namespace weir {
namespace {

std::string interval_text(const Forecast& f) {
  if (!f.interval) return ", no interval";
  const StepInterval& interval = *f.interval;
  return fmt::format(", {:.3g} % {} to {}", 100 * interval.nominal, format_duration(interval.low),
                     format_duration(interval.high));
}

// Of a plan that lacks some of its job.
std::string doubt_text(const Plan& plan) {
  const std::vector<std::string> doubts = doubts_of(plan.job);
  if (doubts.empty()) return "";
  return fmt::format("; in doubt: the job's {} is not in the plan", fmt::join(doubts, ", "));
}

// Of one whose job makes memory less than the plan can say, where that decides.
std::string leaner_text(const Plan& plan, const Forecast& f) {
  const std::vector<std::string> leaner = leaner_than_planned(plan.job);
  if (leaner.empty() || f.fits() == Fits::yes) return "";
  return fmt::format("; less by the job's {}, which the plan does not have",
                     fmt::join(leaner, ", "));
}

// On what a built-in interval stands.
void print_source(Printout& out, const IntervalSource& source) {
  out.say("interval from {} measured runs on {} other clusters by {} other stacks\n", source.rows,
          source.clusters, source.stacks);
}

// In flight as `weir schedule` counts it: in micro-batches of a whole rank.
Table rank_table(const ScheduleShape& shape, const Forecast& f) {
  Table table{{{"rank"},
               {"busy"},
               {"fill"},
               {"drain"},
               {"imbalance"},
               {"comm."},
               {"host"},
               {"optimizer"},
               {"peak memory"},
               {"in flight"}},
              {},
              {}};
  for (std::size_t r = 0; r < f.metrics.ranks.size(); ++r) {
    const RankMetrics& m = f.metrics.ranks[r];
    const auto d = [](Nanoseconds t) { return Cell(to_seconds(t)); };
    const double held = most_in_flight(shape, f.peak_in_flight[r]);
    table.rows.push_back({r, d(m.busy), d(m.idle.fill), d(m.idle.drain), d(m.idle.imbalance),
                          d(m.idle.communication), d(m.idle.host), d(m.idle.optimizer),
                          f.memory[r].peak, number(held, fmt::format("{:.4g}", held))});
  }
  return table;
}

void print_forecast(Printout& out, const ResolvedPlan& loaded, const Forecast& f) {
  out.say("{}: step {} ({}{}), lower bound {}, bubble {:.1f} %{}\n", summary(loaded.plan),
          format_duration(f.step_time), to_string(f.basis), interval_text(f),
          format_duration(f.lower_bound), f.metrics.bubble_fraction * 100, doubt_text(loaded.plan));
  // Models that are no sequences have samples but no tokens.
  if (f.samples_per_s) out.say("{} samples/s", format_figure(*f.samples_per_s, 4));
  if (f.tokens_per_s) out.say(", {} tokens/s", format_figure(*f.tokens_per_s, 4));
  if (f.model_tflops_per_device)
    out.say(", {} model TFLOP/s a device", format_figure(*f.model_tflops_per_device, 4));
  out.say("{}\n", cost_clause(f));
  out.show(rank_table(loaded.schedule.shape, f));
  if (f.interval_source) print_source(out, *f.interval_source);
  if (f.memory_limit)
    out.say("{}{}{}\n", describe_fit(f), doubt_text(loaded.plan), leaner_text(loaded.plan, f));
  if (f.distribution) {
    out.say("jitter: mean {}, median {}, 90 % of steps between {} and {} ({} samples)\n",
            format_duration(f.distribution->mean), format_duration(f.distribution->median),
            format_duration(f.distribution->low), format_duration(f.distribution->high),
            f.distribution->samples);
  }
  if (f.without_barrier)
    out.say("without a barrier between steps: {}\n", format_duration(*f.without_barrier));
  if (f.goodput) {
    const auto& [r, checkpoints] = *f.goodput;
    out.say("checkpoint every {} steps ({}): goodput {:.2f} %{}; optimum {}, Daly {}, Young {}\n",
            checkpoints.steps, format_duration(checkpoints.interval), checkpoints.goodput * 100,
            f.samples_per_s ? fmt::format(", {} samples/s",
                                          format_figure(*f.samples_per_s * checkpoints.goodput, 4))
                            : "",
            format_duration(best_interval(r)), format_duration(daly_interval(r)),
            format_duration(young_interval(r)));
  }
  if (f.training_tokens) out.say("{}\n", training_text(f));
  // Doubts go to stderr: stdout may be read by a program.
  for (const std::string& warning : f.warnings) note(warning);
}

}  // namespace

void print(Printout& out, const app::SimulateRequest& request, const app::SimulateResult& result) {
  out.set_width(app::characters(request.picture.width));
  if (const auto remark = app::remark_on(request.stack, result.forecast.stack)) {
    const bool wider = app::is_assumed(result.forecast.stack) && result.forecast.interval &&
                       result.forecast.basis == Basis::builtin;
    note(*remark + (wider ? "; which software runs it? The interval holds that nobody said, and is "
                            "narrower where it is named (nanotron, torchtitan, ... or a file)"
                          : ""));
  }
  print_forecast(out, result.plan.loaded, result.forecast);
  if (out.wants_timeline()) draw_in_terminal(out, result.trace, out.width());
  if (result.forecast.basis == Basis::builtin)
    out.say("{}\n", describe(builtin_accuracy(result.device), result.device));
  if (request.output) out.say("{}\n", request.output->string());
}

}  // namespace weir
