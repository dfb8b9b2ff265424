// The page of `weir tune`, from the plan to use down to how it was found; and its table.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/pages/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "tools/report/breakdown.hpp"
#include "tools/report/card.hpp"
#include "tools/report/chart.hpp"
#include "tools/report/page.hpp"
#include "tools/report/svg.hpp"
#include "tools/report/timeline.hpp"

namespace weir {
namespace {

constexpr std::size_t kFirstRows = 5;  // on the first screen

std::string first_sentence(const Report& report) {
  const ReportRow& best = report.rows.front();
  const Forecast& f = best.forecast;
  std::string text = "Use ";
  if (!report.disturbed.empty()) {  // which says why there is no winner, too
    text = "No plan is the winner. The fastest was ";
  } else if (!report.no_winner.empty()) {
    text = fmt::format("No plan is the winner: {}. The fastest was ", escape(report.no_winner));
  }
  text += fmt::format("<b>{}</b>: measured {} a step (predicted {}", escape(best.plan),
                      format_duration(best.measured), format_duration(f.step_time));
  text += f.interval ? fmt::format(", 90 % between {} and {})", format_duration(f.interval->low),
                                   format_duration(f.interval->high))
                     : std::string(", no interval: too few held-out plans)");
  text += fmt::format(", {} on its fullest device", format_bytes(best.measured_peak));
  if (f.memory_limit) text += fmt::format(" of {} allowed", format_bytes(*f.memory_limit));
  return text + fmt::format("; it is limited by {}.",
                            limited_by(best.comparison.measured_metrics, best.measured_bubble));
}

// Nothing where no baseline was run.
std::string changes_section(const Report& report) {
  const auto baseline = std::ranges::find_if(report.rows, &ReportRow::baseline);
  if (baseline == report.rows.end()) return "";
  std::string html = fmt::format("<h2>What changes against {}</h2>\n", escape(report.baseline));
  const ReportRow& best = report.rows.front();
  // Without a winner nobody is told to change anything.
  const bool won = report.no_winner.empty();
  if (baseline == report.rows.begin()) {
    return html +
           fmt::format("<p>Nothing: of what was run it {} the fastest.</p>\n", won ? "is" : "was");
  }
  html +=
      fmt::format("<p>{} {} {} a step, {:.3f} times as long{}.</p>\n", escape(baseline->plan),
                  won ? "takes" : "took", format_duration(baseline->measured),
                  baseline->measured / best.measured,
                  won ? "" : " as the fastest plan: how much of that is scatter cannot be told");
  return html + changes_table(report.changes, report.baseline, won ? "best plan" : "fastest plan");
}

std::vector<std::string> names_of(const Report& report) {
  std::vector<std::string> names;
  for (const ReportRow& row : report.rows) names.push_back(row.plan);
  return names;
}

std::string intervals(const Report& report) {
  const auto step = [](const std::string& name, const ReportRow& row) {
    return ForecastStep{name, &row.forecast, row.measured};
  };
  const auto baseline = std::ranges::find_if(report.rows, &ReportRow::baseline);
  std::vector<ForecastStep> steps{
      step(report.no_winner.empty() ? "best plan" : "fastest plan", report.rows.front())};
  if (baseline > report.rows.begin() && baseline != report.rows.end())
    steps.push_back(step(report.baseline, *baseline));
  return interval_figure(steps);
}

// Of a plan alone: what its row would say.
std::string only_plan(const ReportRow& row) {
  return fmt::format(
      "<p>{} alone: predicted {}, measured {} ({:+.1f} %); peak memory predicted {}, measured {}; "
      "bubble predicted {:.1f} %, measured {:.1f} %.</p>\n",
      escape(row.plan), format_duration(row.forecast.step_time), format_duration(row.measured),
      row.error() * 100, format_bytes(row.forecast.peak_memory()), format_bytes(row.measured_peak),
      row.forecast.metrics.bubble_fraction * 100, row.measured_bubble * 100);
}

std::string ranking(const Report& report, std::size_t most) {
  if (report.rows.size() == 1) return only_plan(report.rows.front());
  std::string text =
      "<tr><th>plan</th><th>predicted</th><th>measured</th><th>error</th><th>after "
      "recalibration</th>"
      "<th>peak predicted</th><th>peak measured</th><th>bubble predicted</th><th>bubble "
      "measured</th></tr>\n";
  std::size_t shown = 0;
  for (const ReportRow& row : report.rows) {
    // The baseline is shown wherever it stands.
    if (shown >= most && !row.baseline) continue;
    // The first row is the fastest, for rows come sorted; it is marked where that is no luck.
    text += fmt::format(
        "<tr{}><td>{}{}</td><td>{}</td><td>{}</td><td>{:+.1f} %</td><td>{}"
        "</td><td>{}</td><td>{}</td><td>{:.1f} "
        "%"
        "</td><td>{:.1f} %</td></tr>\n",
        shown == 0 && report.no_winner.empty() ? " class=\"best\"" : "", escape(row.plan),
        row.baseline ? " (baseline)" : "", format_duration(row.forecast.step_time),
        format_duration(row.measured), row.error() * 100, row.error_after(" %"),
        format_bytes(row.forecast.peak_memory()), format_bytes(row.measured_peak),
        row.forecast.metrics.bubble_fraction * 100, row.measured_bubble * 100);
    ++shown;
  }
  return html_table(text);
}

std::string idle_table(const ReportRow& row) {
  if (!is_ever_idle(row.comparison.predicted_metrics) &&
      !is_ever_idle(row.comparison.measured_metrics))
    return "<p>No rank is ever idle.</p>\n";
  std::string text = "<tr><th>rank</th><th></th>" + busy_and_idle_heads() + "</tr>\n";
  const auto add = [&text](std::size_t rank, const char* which, const RankMetrics& m) {
    text += fmt::format("<tr><td>{}</td><td>{}</td>{}</tr>\n", rank, which, busy_and_idle_cells(m));
  };
  for (std::size_t rank = 0; rank < row.comparison.predicted_metrics.ranks.size(); ++rank) {
    add(rank, "predicted", row.comparison.predicted_metrics.ranks[rank]);
    add(rank, "measured", row.comparison.measured_metrics.ranks[rank]);
  }
  return html_table(text);
}

std::string waterfall(const ReportRow& row) {
  std::vector<WaterfallPart> parts;
  for (const WaterfallPart& part : row.comparison.waterfall) {
    // As written a shorter one would be nothing.
    if (std::abs(part.difference.count()) >= 5e-7) parts.push_back(part);
  }
  const auto ms = [](const WaterfallPart& part) {
    return fmt::format("{:+.3f} ms", part.difference.count() * 1e3);
  };
  const std::string from =
      fmt::format("<p>From predicted {} to the measured step, averaged over ranks: ",
                  format_duration(row.comparison.predicted));
  if (parts.empty()) return from + "no difference.</p>\n";
  if (parts.size() == 1)
    return from + fmt::format("{} of {}.</p>\n", ms(parts.front()), parts.front().cause);
  std::string rows = "<tr><th>part</th><th>difference</th></tr>\n";
  for (const WaterfallPart& part : parts)
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", part.cause, ms(part));
  return from + "</p>\n" + html_table(rows);
}

std::string accuracy(const Report& report) {
  Series before{"predicted first", {}, kBlue, Series::Mark::dots};
  Series after{"recalibrated", {}, kRed, Series::Mark::dots};
  for (const ReportRow& row : report.rows) {
    before.points.emplace_back(row.measured.count() * 1e3, row.forecast.step_time.count() * 1e3);
    if (row.recalibrated)
      after.points.emplace_back(row.measured.count() * 1e3, row.recalibrated->count() * 1e3);
  }
  Chart chart{
      "Predicted against measured step time", "measured, ms", "predicted, ms", {before, after}};
  chart.diagonal = true;
  return chart_figure(std::move(chart));
}

}  // namespace

double ReportRow::error() const { return (forecast.step_time - measured) / measured; }

std::string ReportRow::error_after(std::string_view unit) const {
  if (!recalibrated) return "-";
  return fmt::format("{:+.1f}{}", (*recalibrated - measured) / measured * 100, unit);
}

std::string report_html(const Report& report) {
  const ReportRow& best = report.rows.front();
  const std::array panels{TimelinePanel{
      "",
      {{&best.predicted, 0, "predicted"}, {&best.run, best.comparison.typical_step, "measured"}}}};
  std::string html = fmt::format(
      "{}<p>{}</p>\n{}{}{}<h2>The plans that were run</h2>\n{}<p class=\"note\">{} candidates, {} "
      "fit. Costs: {}. Machine: {}. Median "
      "error "
      "{:.1f} % as first predicted{}.</p>\n",
      disturbance_warning(report.disturbed), first_sentence(report),
      facts(best.forecast, best.measured), intervals(report), changes_section(report),
      ranking(report, kFirstRows) + legend_note(names_of(report)), report.candidates,
      report.feasible, escape(report.costs_origin), escape(report.machine),
      report.error_before * 100,
      report.error_after
          ? fmt::format(", {:.1f} % after recalibration with each plan left out of its own fit",
                        *report.error_after * 100)
          : "; it was the only plan that was run");
  html += "<h2>Timelines</h2>\n" +
          timeline_figure(draw_timeline(panels, {.width = 800, .held = true})) +
          "<p class=\"note\">The measured step is the one of median length; memory is the "
          "forecast's.</p>\n";
  html += "<h2>Bubble by cause</h2>\n" +
          bubble_table({{"predicted", shares_of(best.comparison.predicted_metrics)},
                        {"measured", shares_of(best.comparison.measured_metrics)}});
  html += "<h2>Idle time by cause, rank by rank</h2>\n" + idle_table(best) + waterfall(best);
  html += explained_sections(report.explained);
  html += "<h2>Memory by kind, at each rank's predicted peak</h2>\n" +
          memory_table(best.forecast.memory);
  html += "<h2>Accuracy</h2>\n" + accuracy(report);
  if (report.rows.size() > kFirstRows)
    html += "<h2>All plans run</h2>\n" + ranking(report, report.rows.size());
  html +=
      "<h2>Method</h2>\n<p>Every layer was timed on this machine with all devices busy; the sweep "
      "simulated every "
      "candidate with these times; the most promising different plans and the plain K = 1 were "
      "then trained for real, "
      "interleaved, and each measured step is a median. Recalibrated forecasts use factors per "
      "kind of action fitted "
      "to "
      "the other plans' traces (Huber location of log ratios).</p>\n";
  const ReportCard card{.command = "tune",
                        .model = report.model,
                        .machine = report.machine,
                        .date = report.provenance.date,
                        .plan = best.plan,
                        .forecast = best.forecast.step_time,
                        .measured = best.measured,
                        .error = best.error()};
  return html_page("weir tune: " + report.model, card_part(card) + html, report.provenance);
}

}  // namespace weir
