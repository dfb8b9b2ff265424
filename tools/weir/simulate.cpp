// What people read of `weir simulate`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/simulate.hpp"

#include <fmt/core.h>

#include "tools/app/builtin_accuracy.hpp"
#include "tools/app/plan_fields.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/fit_text.hpp"
#include "tools/weir/terminal.hpp"

namespace weir {
namespace {

std::string interval_text(const Forecast& f) {
  if (!f.interval) return ", no interval";
  const StepInterval& interval = *f.interval;
  return fmt::format(", {:.3g} % {} to {}", 100 * interval.nominal, format_duration(interval.low),
                     format_duration(interval.high));
}

// On what a built-in interval stands.
void print_source(const IntervalSource& source) {
  say("interval from {} measured runs on {} other clusters by {} other stacks\n", source.rows,
      source.clusters, source.stacks);
}

void print_forecast(const ResolvedPlan& loaded, const Forecast& f) {
  say("{}: step {} ({}{}), lower bound {}, bubble {:.1f} %\n", summary(loaded.plan),
      format_duration(f.step_time), to_string(f.basis), interval_text(f),
      format_duration(f.lower_bound), f.metrics.bubble_fraction * 100);
  if (f.samples_per_s) say("{:.4g} samples/s", *f.samples_per_s);
  if (f.tokens_per_s) say(", {:.4g} tokens/s", *f.tokens_per_s);
  if (f.model_tflops_per_device) say(", {:.4g} model TFLOP/s a device", *f.model_tflops_per_device);
  say("\n{:>4} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {:>9}\n", "rank", "busy", "fill",
      "drain", "imbalance", "comm.", "host", "optimizer", "peak memory", "in flight");
  for (std::size_t r = 0; r < f.metrics.ranks.size(); ++r) {
    const RankMetrics& m = f.metrics.ranks[r];
    const auto d = [](Nanoseconds t) { return format_duration(to_seconds(t)); };
    say("{:>4} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {:>9}\n", r, d(m.busy),
        d(m.idle.fill), d(m.idle.drain), d(m.idle.imbalance), d(m.idle.communication),
        d(m.idle.host), d(m.idle.optimizer), format_bytes(f.memory[r].peak), f.peak_in_flight[r]);
  }
  if (f.interval_source) print_source(*f.interval_source);
  if (f.memory_limit) say("{}\n", describe_fit(f));
  if (f.distribution) {
    say("jitter: mean {}, median {}, 90 % of steps between {} and {} ({} samples)\n",
        format_duration(f.distribution->mean), format_duration(f.distribution->median),
        format_duration(f.distribution->low), format_duration(f.distribution->high),
        f.distribution->samples);
  }
  if (f.without_barrier)
    say("without a barrier between steps: {}\n", format_duration(*f.without_barrier));
  if (f.goodput) {
    const auto& [r, checkpoints] = *f.goodput;
    say("checkpoint every {} steps ({}): goodput {:.2f} %{}; optimum {}, Daly {}, Young {}\n",
        checkpoints.steps, format_duration(checkpoints.interval), checkpoints.goodput * 100,
        f.samples_per_s ? fmt::format(", {:.4g} samples/s", *f.samples_per_s * checkpoints.goodput)
                        : "",
        format_duration(best_interval(r)), format_duration(daly_interval(r)),
        format_duration(young_interval(r)));
  }
  for (const std::string& warning : f.warnings) note(warning);
}

}  // namespace

void print(const app::SimulateRequest& request, const app::SimulateResult& result) {
  if (const auto remark = app::remark_on(request.stack, result.forecast.stack)) note(*remark);
  print_forecast(result.plan.loaded, result.forecast);
  if (result.forecast.basis == Basis::builtin)
    say("{}\n", describe(builtin_accuracy(result.device), result.device));
  if (request.output) say("{}\n", request.output->string());
}

}  // namespace weir
