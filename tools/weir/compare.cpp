// What people read of `weir compare`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/compare/compare.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tools/app/compare/measured_figure.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"

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
    // Of what took no time there is no share.
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
  // Three figures behind the keys that differ: what the difference comes to.
  const auto percent = [](double share) { return fmt::format("{:.1f}%", share * 100); };
  table.rows.push_back({fmt::format("step time ({})", to_string(a.basis)),
                        format_duration(a.step_time), format_duration(b.step_time),
                        fmt::format("{:+.1f} %", (b.step_time / a.step_time - 1) * 100)});
  // Steps of unlike mini-batches compare by their samples alone.
  const bool unlike =
      result.plans[0].plan.global_batch_size() != result.plans[1].plan.global_batch_size();
  if (unlike && a.samples_per_s && b.samples_per_s) {
    table.rows.push_back(
        {"samples/s", fmt::format("{:.4g}", *a.samples_per_s),
         fmt::format("{:.4g}", *b.samples_per_s),
         fmt::format("{:+.1f} %", (*b.samples_per_s / *a.samples_per_s - 1) * 100)});
  }
  table.rows.push_back(
      {"peak memory", format_bytes(a.peak_memory()), format_bytes(b.peak_memory()), ""});
  table.rows.push_back(
      {"bubble", percent(a.metrics.bubble_fraction), percent(b.metrics.bubble_fraction), ""});
  out.show(table);
  if (unlike) {
    out.say(
        "the mini-batches have {} and {} samples: steps of these do not compare, samples/s do\n",
        result.plans[0].plan.global_batch_size(), result.plans[1].plan.global_batch_size());
  }
  if (const auto& r = result.ratio) {
    out.say("the second plan's step is {:.3f} of the first's, {:.3g} % {:.3f} to {:.3f}{}\n",
            r->ratio, r->nominal * 100, r->low, r->high,
            r->low < 1 && r->high > 1 ? ": which is faster, such forecasts do not tell" : "");
  }
}

void print_log(Printout& out, const app::CompareResult& result) {
  const app::LogComparison& c = *result.log;
  const Forecast& f = result.forecasts.front();
  out.say("predicted {} ({}), measured {} (error {:+.2f} %)\n", format_duration(f.step_time),
          to_string(f.basis), format_duration(c.measured), (f.step_time / c.measured - 1) * 100);
  out.say("{}\n", app::told(c.log));
  if (const auto& memory = c.log.memory) {
    out.say("peak memory {}: predicted {}, measured {}\n", to_string(memory->count),
            format_bytes(f.peak_memory(memory->count)), format_bytes(memory->bytes));
  }
}

void print_timeline(Printout& out, const app::TimelineComparison& c) {
  const StartComparison& starts = c.starts;
  out.say(
      "predicted {} ({}), measured {} (error {:+.2f} %; median of {} iterations)\n",
      format_duration(starts.predicted),
      c.priced_by ? fmt::format("medians of iteration {}", *c.priced_by) : "the plan's forecast",
      format_duration(starts.measured), (starts.predicted / starts.measured - 1) * 100,
      c.iterations.size());
  const auto say_errors = [&out](const char* what, const StartErrors& errors) {
    out.say(
        "starts of {} actions{}: {:.2f} % of the step off in the median, 95 of 100 within "
        "{:.2f} %\n",
        errors.actions, what, errors.median * 100, errors.p95 * 100);
  };
  say_errors("", c.errors);
  if (!c.interrupted.empty()) {
    if (c.uninterrupted) say_errors(", without interrupted iterations", *c.uninterrupted);
    out.say("interrupted (an action above {} times its rank's median):\n", kInterrupted);
    for (const Interruption& one : c.interrupted)
      out.say("  iteration {}: {}\n", c.iterations[static_cast<std::size_t>(one.step)],
              describe(one));
  }
  out.say("\n");
  Table actions{
      {{"rank"}, left("action"), {"start"}, {"measured"}, {"% step"}, {"lasts"}, {"measured"}},
      {},
      {}};
  for (const ActionStart& a : starts.actions) {
    const double off = (a.predicted_start - a.measured_start) / starts.measured * 100;
    actions.rows.push_back({std::to_string(a.rank.value), to_string(a.action),
                            format_duration(a.predicted_start), format_duration(a.measured_start),
                            fmt::format("{:+.2f}", off), format_duration(a.predicted),
                            format_duration(a.measured)});
  }
  out.show(actions);
  out.say("\n");
  // Memory is told against the first rank's too: a constant that all have alike cancels.
  const app::TimelineRankMemory& first = c.memory.front();
  const auto over = [](Bytes bytes, Bytes of) {
    return fmt::format("{:.3f}",
                       static_cast<double>(bytes.count()) / static_cast<double>(of.count()));
  };
  Table memory{
      {{"rank"}, {"in flight"}, {"peak memory"}, {"measured"}, {"over rank 0's"}, {"measured"}},
      {},
      {}};
  for (const app::TimelineRankMemory& rank : c.memory) {
    const bool known = rank.predicted && first.predicted;
    memory.rows.push_back({std::to_string(rank.rank.value), std::to_string(rank.peak_in_flight),
                           known ? format_bytes(*rank.predicted) : "-", format_bytes(rank.measured),
                           known ? over(*rank.predicted, *first.predicted) : "-",
                           over(rank.measured, first.measured)});
  }
  out.show(memory);
  if (c.priced_by && first.predicted) {
    out.say(
        "\nPeak memory: a fixed part and one for each micro-batch in flight, by ranks 1 and {} "
        "of iteration {} itself.\n",
        c.memory.size() - 2, *c.priced_by);
  }
}

}  // namespace

void print(Printout& out, const app::CompareRequest& request, const app::CompareResult& result) {
  // The width that was asked for is of tables as well as of pictures.
  out.set_width(app::characters(request.picture.width));
  // Of measured times alone no stack was assumed, so there is nothing to remark.
  const bool by_iteration = result.timeline && result.timeline->priced_by;
  if (!result.traces && !by_iteration) {
    const std::string& stack = result.forecasts.front().stack;
    if (const auto remark = app::remark_on(request.stack, stack)) note(*remark);
    if (!result.timeline) return result.log ? print_log(out, result) : print_plans(out, result);
  }
  if (result.timeline) {
    print_timeline(out, *result.timeline);
  } else {
    print_comparison(out, *result.traces);
  }
  if (request.output) out.say("{}\n", request.output->string());
}

}  // namespace weir
