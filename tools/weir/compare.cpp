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

// Both in one cell for people, in a column each for programs.
Table idle_table(const Comparison& c, bool apart) {
  Table idle{{{"rank"}}, {}, {}};
  for (const IdleCause& cause : kIdleCauses) {
    const std::string name(cause.name);
    if (apart) {
      idle.columns.insert(idle.columns.end(), {{name + " predicted"}, {name + " measured"}});
    } else {
      idle.columns.push_back({name});
    }
  }
  for (std::size_t r = 0; r < c.measured_metrics.ranks.size(); ++r) {
    std::vector<Cell>& row = idle.rows.emplace_back(1, r);
    for (const IdleCause& cause : kIdleCauses) {
      const Seconds predicted = to_seconds(c.predicted_metrics.ranks[r].idle.*cause.time);
      const Seconds measured = to_seconds(c.measured_metrics.ranks[r].idle.*cause.time);
      if (apart) {
        row.insert(row.end(), {predicted, measured});
      } else {
        row.emplace_back(
            fmt::format("{:.3f} / {:.3f}", predicted.count() * 1e3, measured.count() * 1e3));
      }
    }
  }
  return idle;
}

void print_comparison(Printout& out, const Comparison& c) {
  const auto known = [](const std::optional<double>& share, fmt::format_string<double> format) {
    return share ? percent(*share, format) : Cell("-");
  };
  out.say("predicted {}, measured {} (error {})\n\n", format_duration(c.predicted),
          format_duration(c.measured), known(c.error, "{:+.2f} %").text);
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
    kinds.rows.push_back({std::string(to_string(k.kind)), k.rank.value, k.actions, k.predicted,
                          k.measured, known(error, "{:+.1f}%"),
                          known(k.median_abs_error, "{:.1f}%")});
  }
  out.show(kinds);
  out.say("\nidle by cause, predicted / measured, ms\n");
  out.show(idle_table(c, out.for_programs()));
  out.say("\nfrom predicted to measured, averaged over ranks\n");
  for (const WaterfallPart& p : c.waterfall)
    out.say("  {:<16} {:>+12.3f} ms\n", p.cause, p.difference.count() * 1e3);
}

// Programs get a text without quotes, a list in full, and nothing for a key that is not there.
Cell value_cell(const nlohmann::ordered_json& value) {
  constexpr std::size_t kValue = 48;  // of a list or a hash
  const std::string text = value.dump();
  const std::string whole = value.is_string() ? value.get<std::string>() : text;
  return {cut(text, kValue), value.is_null() ? "" : whole, ""};
}

// A row of a table whose rows are in several units.
Cell row_in(const std::string& name, std::string_view unit) {
  return {name, fmt::format("{} [{}]", name, unit), ""};
}

void print_plans(Printout& out, const app::CompareResult& result) {
  const auto& [a, b] = result.forecasts;
  const auto json = to_json(result);
  Table table{{left("what"), {"first plan"}, {"second plan"}, {"second to first"}}, {}, {}};
  for (const auto& d : json["differences"]) {
    table.rows.push_back(
        {d["key"].get<std::string>(), value_cell(d["first"]), value_cell(d["second"]), ""});
  }
  // Three figures behind the keys that differ: what the difference comes to.
  table.rows.push_back({row_in(fmt::format("step time ({})", to_string(a.basis)), "s"), a.step_time,
                        b.step_time, percent(b.step_time / a.step_time - 1, "{:+.1f} %")});
  // Steps of unlike mini-batches compare by their samples alone.
  const bool unlike =
      result.plans[0].plan.global_batch_size() != result.plans[1].plan.global_batch_size();
  if (unlike && a.samples_per_s && b.samples_per_s) {
    table.rows.push_back({"samples/s",
                          number(*a.samples_per_s, fmt::format("{:.4g}", *a.samples_per_s)),
                          number(*b.samples_per_s, fmt::format("{:.4g}", *b.samples_per_s)),
                          percent(*b.samples_per_s / *a.samples_per_s - 1, "{:+.1f} %")});
  }
  table.rows.push_back({row_in("peak memory", "bytes"), a.peak_memory(), b.peak_memory(), ""});
  table.rows.push_back({row_in("bubble", "%"), percent(a.metrics.bubble_fraction),
                        percent(b.metrics.bubble_fraction), ""});
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
  if (!out.for_programs()) return;
  // What was said is all there is: programs read it as rows.
  Table table{{left("what"), {"predicted"}, {"measured"}}, {}, {}};
  table.rows.push_back({row_in("step time", "s"), f.step_time, c.measured});
  if (const auto& memory = c.log.memory)
    table.rows.push_back(
        {row_in("peak memory", "bytes"), f.peak_memory(memory->count), memory->bytes});
  out.show(table);
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
    actions.rows.push_back({a.rank.value, to_string(a.action), a.predicted_start, a.measured_start,
                            number(off, fmt::format("{:+.2f}", off)), a.predicted, a.measured});
  }
  out.show(actions);
  out.say("\n");
  // Memory is told against the first rank's too: a constant that all have alike cancels.
  const app::TimelineRankMemory& first = c.memory.front();
  const auto over = [](Bytes bytes, Bytes of) {
    const double ratio = static_cast<double>(bytes.count()) / static_cast<double>(of.count());
    return number(ratio, fmt::format("{:.3f}", ratio));
  };
  Table memory{
      {{"rank"}, {"in flight"}, {"peak memory"}, {"measured"}, {"over rank 0's"}, {"measured"}},
      {},
      {}};
  for (const app::TimelineRankMemory& rank : c.memory) {
    const bool known = rank.predicted && first.predicted;
    memory.rows.push_back({rank.rank.value, rank.peak_in_flight,
                           known ? Cell(*rank.predicted) : "-", rank.measured,
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
