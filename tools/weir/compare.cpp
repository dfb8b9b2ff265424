// What people read of `weir compare`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/compare.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tools/app/measured_figure.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/printout.hpp"

namespace weir {
namespace {

void print_comparison(Printout& out, const Comparison& c) {
  const auto percent = [](const std::optional<double>& value, const char* format) {
    return value ? fmt::format(fmt::runtime(format), *value * 100) : std::string("-");
  };
  out.say("predicted {}, measured {} (error {})\n\n", format_duration(c.predicted),
          format_duration(c.measured), percent(c.error, "{:+.2f} %"));
  Table kinds{{left("action"),
               {"rank"},
               {"actions"},
               {"predicted"},
               {"measured"},
               {"error"},
               {"median |error|"}},
              {},
              {}};
  for (const KindError& k : c.kinds) {
    const std::optional<double> error =
        k.measured > Seconds(0) ? std::optional(k.predicted / k.measured - 1) : std::nullopt;
    kinds.rows.push_back({std::string(to_string(k.kind)), std::to_string(k.rank.value),
                          std::to_string(k.actions), format_duration(k.predicted),
                          format_duration(k.measured), percent(error, "{:+.1f}%"),
                          percent(k.median_abs_error, "{:.1f}%")});
  }
  out.show(kinds);
  out.say("\nidle by cause, predicted / measured, ms\n");
  Table idle{{{"rank"}}, {}, {}};
  for (const IdleCause& cause : kIdleCauses) idle.columns.push_back({std::string(cause.name)});
  for (std::size_t r = 0; r < c.measured_metrics.ranks.size(); ++r) {
    std::vector<std::string>& row = idle.rows.emplace_back(1, std::to_string(r));
    for (const IdleCause& cause : kIdleCauses) {
      const auto ms = [&](const StepMetrics& m) {
        return to_seconds(m.ranks[r].idle.*cause.time).count() * 1e3;
      };
      row.push_back(
          fmt::format("{:.3f} / {:.3f}", ms(c.predicted_metrics), ms(c.measured_metrics)));
    }
  }
  out.show(idle);
  out.say("\nfrom predicted to measured, averaged over ranks\n");
  for (const WaterfallPart& p : c.waterfall)
    out.say("  {:<16} {:>+12.3f} ms\n", p.cause, p.difference.count() * 1e3);
}

void print_plans(Printout& out, const app::CompareResult& result) {
  const auto& [a, b] = result.forecasts;
  const auto json = to_json(result);
  constexpr std::size_t kValue = 48;  // of a list or a hash; JSON has it whole
  Table table{{left("what"), {"first plan"}, {"second plan"}, {"second to first"}}, {}, {}};
  for (const auto& d : json["differences"]) {
    table.rows.push_back({d["key"].get<std::string>(), cut(d["first"].dump(), kValue),
                          cut(d["second"].dump(), kValue), ""});
  }
  const auto percent = [](double share) { return fmt::format("{:.1f}%", share * 100); };
  table.rows.push_back({fmt::format("step time ({})", to_string(a.basis)),
                        format_duration(a.step_time), format_duration(b.step_time),
                        fmt::format("{:+.1f} %", (b.step_time / a.step_time - 1) * 100)});
  table.rows.push_back(
      {"peak memory", format_bytes(a.peak_memory()), format_bytes(b.peak_memory()), ""});
  table.rows.push_back(
      {"bubble", percent(a.metrics.bubble_fraction), percent(b.metrics.bubble_fraction), ""});
  out.show(table);
}

void print_log(Printout& out, const app::CompareResult& result) {
  const app::LogComparison& c = *result.log;
  const Forecast& f = result.forecasts.front();
  out.say("predicted {} ({}), measured {} (error {:+.2f} %)\n", format_duration(f.step_time),
          to_string(f.basis), format_duration(c.measured), (f.step_time / c.measured - 1) * 100);
  out.say("{}\n", app::told(c.log));
  if (c.log.memory) {
    out.say("peak memory: predicted {}, measured {}\n", format_bytes(f.peak_memory()),
            format_bytes(*c.log.memory));
  }
}

}  // namespace

void print(Printout& out, const app::CompareRequest& request, const app::CompareResult& result) {
  if (!result.traces) {
    const std::string& stack = result.forecasts.front().stack;
    if (const auto remark = app::remark_on(request.stack, stack)) note(*remark);
    return result.log ? print_log(out, result) : print_plans(out, result);
  }
  print_comparison(out, *result.traces);
  if (request.output) out.say("{}\n", request.output->string());
}

}  // namespace weir
