// What people read of `weir compare`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/compare.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tools/app/measured_figure.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/terminal.hpp"

namespace weir {
namespace {

void print_comparison(const Comparison& c) {
  const auto percent = [](const std::optional<double>& value, const char* format) {
    return value ? fmt::format(fmt::runtime(format), *value * 100) : std::string("-");
  };
  say("predicted {}, measured {} (error {})\n\n", format_duration(c.predicted),
      format_duration(c.measured), percent(c.error, "{:+.2f} %"));
  say("{:<10} {:>4} {:>8} {:>11} {:>11} {:>8} {:>14}\n", "action", "rank", "actions", "predicted",
      "measured", "error", "median |error|");
  for (const KindError& k : c.kinds) {
    const std::optional<double> error =
        k.measured > Seconds(0) ? std::optional(k.predicted / k.measured - 1) : std::nullopt;
    say("{:<10} {:>4} {:>8} {:>11} {:>11} {:>8} {:>14}\n", to_string(k.kind), k.rank.value,
        k.actions, format_duration(k.predicted), format_duration(k.measured),
        percent(error, "{:+.1f}%"), percent(k.median_abs_error, "{:.1f}%"));
  }
  say("\nidle by cause, predicted / measured, ms\n{:>4}", "rank");
  for (const IdleCause& cause : kIdleCauses) say(" {:>19}", cause.name);
  for (std::size_t r = 0; r < c.measured_metrics.ranks.size(); ++r) {
    say("\n{:>4}", r);
    for (const IdleCause& cause : kIdleCauses) {
      const auto ms = [&](const StepMetrics& m) {
        return to_seconds(m.ranks[r].idle.*cause.time).count() * 1e3;
      };
      say(" {:>9.3f} / {:>7.3f}", ms(c.predicted_metrics), ms(c.measured_metrics));
    }
  }
  say("\n\nfrom predicted to measured, averaged over ranks\n");
  for (const WaterfallPart& p : c.waterfall)
    say("  {:<16} {:>+12.3f} ms\n", p.cause, p.difference.count() * 1e3);
}

void print_plans(const app::CompareResult& result) {
  const auto& [a, b] = result.forecasts;
  const auto json = to_json(result);
  for (const auto& d : json["differences"]) {
    say("{:<24} {:>20} {:>20}\n", d["key"].get<std::string>(), d["first"].dump(),
        d["second"].dump());
  }
  say("{:<24} {:>20} {:>20}  ({:+.1f} %)\n", fmt::format("step time ({})", to_string(a.basis)),
      format_duration(a.step_time), format_duration(b.step_time),
      (b.step_time / a.step_time - 1) * 100);
  say("{:<24} {:>20} {:>20}\n", "peak memory", format_bytes(a.peak_memory()),
      format_bytes(b.peak_memory()));
  say("{:<24} {:>19.1f}% {:>19.1f}%\n", "bubble", a.metrics.bubble_fraction * 100,
      b.metrics.bubble_fraction * 100);
}

void print_log(const app::CompareResult& result) {
  const app::LogComparison& c = *result.log;
  const Forecast& f = result.forecasts.front();
  say("predicted {} ({}), measured {} (error {:+.2f} %)\n", format_duration(f.step_time),
      to_string(f.basis), format_duration(c.measured), (f.step_time / c.measured - 1) * 100);
  say("{}\n", app::told(c.log));
  if (c.log.memory) {
    say("peak memory: predicted {}, measured {}\n", format_bytes(f.peak_memory()),
        format_bytes(*c.log.memory));
  }
}

}  // namespace

void print(const app::CompareRequest& request, const app::CompareResult& result) {
  if (!result.traces) {
    const std::string& stack = result.forecasts.front().stack;
    if (const auto remark = app::remark_on(request.stack, stack)) note(*remark);
    return result.log ? print_log(result) : print_plans(result);
  }
  print_comparison(*result.traces);
  if (request.output) say("{}\n", request.output->string());
}

}  // namespace weir
