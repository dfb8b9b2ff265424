// The pages and sentences of an evaluation.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/pages/evaluation_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "plan/job/summary.hpp"
#include "tools/report/breakdown.hpp"
#include "tools/report/card.hpp"
#include "tools/report/page.hpp"
#include "tools/report/svg.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

// Median and worst |error| of the plans that share a property, for each of its values.
std::string by_property(const EvaluationReport& report) {
  std::map<std::string, std::vector<double>> errors;
  for (const Outcome& o : report.outcomes) {
    const double error = std::abs(o.error());
    errors[fmt::format("K = {}", o.plan.pp)].push_back(error);
    // Padded, so that names sort as numbers do.
    errors[fmt::format("M = {:>3}", o.plan.microbatches)].push_back(error);
    errors["schedule " + o.plan.schedule].push_back(error);
    errors["recompute " + to_text(o.plan.recompute)].push_back(error);
  }
  std::string text =
      "<tr><th>plans with</th><th>plans</th><th>median error</th><th>worst</th></tr>\n";
  for (const auto& [name, values] : errors) {
    text += fmt::format("<tr><td>{}</td><td>{}</td><td>{:.1f} %</td><td>{:.1f} %</td></tr>\n",
                        escape(name), values.size(), median(values) * 100,
                        *std::ranges::max_element(values) * 100);
  }
  return html_table(text);
}

std::string interval_cell(const Outcome& o) {
  if (!o.interval) return "none";
  return fmt::format("{} to {}{}", format_duration(o.interval->low),
                     format_duration(o.interval->high), o.inside() ? "" : ", missed");
}

std::string all_plans(std::vector<Outcome> outcomes) {
  // Worst first: that is what a reader looks for. Stable, so that equal errors stay in the order of
  // the runs.
  std::ranges::stable_sort(outcomes, std::ranges::greater(),
                           [](const Outcome& o) { return std::abs(o.error()); });
  std::string text =
      "<tr><th>held-out plan, worst first</th><th>forecast</th><th>90 % "
      "interval</th><th>measured</th>"
      "<th>half of its steps within</th><th>error</th><th>peak forecast</th><th>peak "
      "measured</th></tr>\n";
  std::vector<std::string> names;
  for (const Outcome& o : outcomes) {
    names.push_back(summary(o.plan));
    text += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:+.1f} "
        "%</td><td>{}</td><td>{}</td></tr>\n",
        escape(names.back()), format_duration(o.predicted), interval_cell(o),
        format_duration(o.measured()), format_duration(o.noise()), o.error() * 100,
        format_bytes(o.predicted_peak),
        o.measured_peak.count() > 0 ? format_bytes(o.measured_peak) : "not known");
  }
  return html_table(text) + legend_note(names);
}

// What of the errors is the machine's: it ran faster or slower than when the forecasts were made.
std::string pace_text(const EvaluationReport& report) {
  const Pace& pace = *report.pace;
  std::string text = fmt::format(
      "\nmeanwhile the machine took {:.1f} % {} a step ({} plans of the fit, run again): less "
      "that, "
      "median error {:.1f} %",
      std::abs(pace.ratio - 1) * 100, pace.ratio < 1 ? "less" : "more", pace.plans.size(),
      pace.median_error * 100);
  if (report.interval)
    text += fmt::format(", {} of {} inside", pace.hits, report.accuracy.with_interval);
  return text;
}

// Whether the error is more than what the plans' own rounds differ by.
std::string rounds_text(const EvaluationReport& report) {
  const auto differ = rounds_differ(report.outcomes);
  if (!differ) return "\nof one round: nothing says what of the errors is the machine's";
  const double error = report.accuracy.median_error;
  return fmt::format(
      "\nthe plans' own rounds differ by {:.1f} % (every second one against the "
      "others): {}",
      *differ * 100,
      tells(error, differ) ? "less than half of the median error, which is the forecasts'"
                           : "half of the median error or more, so that these runs do not tell how "
                             "good the forecasts are");
}

}  // namespace

Chart scatter_chart(const std::vector<Outcome>& outcomes) {
  Chart chart{"Forecast against measured step time", "measured, ms", "forecast, ms", {}};
  Series dots{"held-out plans", {}, kBlue, Series::Mark::dots};
  for (const Outcome& o : outcomes) {
    const double x = o.measured().count() * 1e3;
    dots.points.emplace_back(x, o.predicted.count() * 1e3);
    // Intervals lie under the dots.
    if (!o.interval) continue;
    chart.series.push_back(
        {"",
         {{x, o.interval->low.count() * 1e3}, {x, o.interval->high.count() * 1e3}},
         {{190, 205, 225}, {62, 82, 108}},
         Series::Mark::stroke});
  }
  chart.series.push_back(std::move(dots));
  chart.diagonal = true;
  return chart;
}

std::string accuracy_text(const EvaluationReport& report) {
  const Accuracy& a = report.accuracy;
  std::string text = fmt::format(
      "{} plans on {}, seed {}: median error {:.1f} %, 95th percentile {:.1f} %, Kendall's tau "
      "{:.2f}, top-1 regret "
      "{:.1f} %{}",
      report.outcomes.size(), report.machine, report.seed, a.median_error * 100, a.p95_error * 100,
      a.tau, a.regret * 100,
      a.memory_error ? fmt::format(", peak memory within {:.2f} %", *a.memory_error * 100) : "");
  text += rounds_text(report);
  if (report.fitted > 0) {
    text +=
        fmt::format("\nby the profile, before {} plans fitted it: {:.1f} % and {:.1f} %",
                    report.fitted, a.by_profile_median_error * 100, a.by_profile_p95_error * 100);
  }
  // One in ten must be able to miss: nine plans at least.
  if (!report.interval) {
    text += "\nno interval: fewer than 9 plans cannot promise 90 %";
    return report.pace ? text + pace_text(report) : text;
  }
  std::vector<double> widths;
  for (const Outcome& o : report.outcomes) {
    if (o.interval) widths.push_back(o.interval->high / o.predicted - 1);
  }
  text += fmt::format(
      "\n90 % interval: {} of {} inside ({} to {} of an honest one set by {} plans)", a.hits,
      a.with_interval, report.band.low, report.band.high, report.interval->calibration_plans);
  if (!widths.empty())
    text += fmt::format(", half as wide as {:.1f} % in the median", median(widths) * 100);
  if (report.pace) text += pace_text(report);
  return text;
}

std::string evaluation_html(const EvaluationReport& report) {
  std::string body = disturbance_warning(report.disturbed) + "<p>";
  // The text is for terminals; its lines become paragraphs.
  for (const char c : escape(accuracy_text(report)))
    body += c == '\n' ? std::string("</p>\n<p>") : std::string(1, c);
  body += "</p>\n" + chart_figure(scatter_chart(report.outcomes));
  body += "<h2>Bubble by cause, mean of the plans</h2>\n" +
          bubble_table({{"predicted", report.idle.predicted}, {"measured", report.idle.measured}});
  body += "<h2>Where the forecasts are weak</h2>\n" + by_property(report);
  body += "<h2>All held-out plans</h2>\n" + all_plans(report.outcomes);
  body += fmt::format(
      "<h2>Method</h2>\n<p>{} random plans of one mini-batch fitted the cost model, {} others set "
      "the interval (split "
      "conformal on log ratios, each divided by its plan's scale: what the model misses in the "
      "median, joined with the "
      "spread of the plan's simulated jitter). The held-out plans were forecast before any of them "
      "was run; the file "
      "with "
      "those forecasts has sha256 {}. Plans ran interleaved in random order; a plan's truth is the "
      "median of its "
      "steps. Among them plans of the fit were run again: what those take longer or shorter than "
      "then is the machine's and not the model's.</p>\n",
      report.fitted, report.interval ? report.interval->calibration_plans : 0,
      report.predictions_sha256);
  const ReportCard card{.command = "evaluate",
                        .model = report.model,
                        .machine = report.machine,
                        .date = report.provenance.date,
                        .error = report.accuracy.median_error};
  return html_page("weir evaluate: " + report.model, card_part(card) + body, report.provenance);
}

}  // namespace weir
