// The page of a search.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/pages/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/explain/place_of_baseline.hpp"
#include "sim/explain/plan_changes.hpp"
#include "tools/report/breakdown.hpp"
#include "tools/report/card.hpp"
#include "tools/report/page.hpp"
#include "tools/report/svg.hpp"
#include "tools/report/timeline.hpp"

namespace weir {
namespace {

constexpr std::size_t kRows = 5;

std::string interval_text(const Forecast& f) {
  if (!f.interval) return fmt::format("{}, no interval", to_string(f.basis));
  return fmt::format("{}, {:.3g} % between {} and {}", to_string(f.basis),
                     100 * f.interval->nominal, format_duration(f.interval->low),
                     format_duration(f.interval->high));
}

std::string first_sentence(const SearchReport& report) {
  const Forecast& f = report.result->plans.front().forecast;
  const char* use =
      is_beaten_by_none(*report.result)
          ? "Keep the present plan: none that was found is faster. The best of them is"
          : "Use";
  std::string text = fmt::format("{} <b>{}</b>: forecast {} a step ({}), {} on its fullest device",
                                 use, escape(report.names.front()), format_duration(f.step_time),
                                 interval_text(f), format_bytes(f.peak_memory()));
  if (f.memory_limit) text += fmt::format(" of {} allowed", format_bytes(*f.memory_limit));
  text += fmt::format("; it is limited by {}.", limited_by(f.metrics, f.metrics.bubble_fraction));
  if (!report.result->baseline) return text;
  const Baseline& baseline = *report.result->baseline;
  return text + fmt::format(" The present plan takes {:.3f} times as long {}{}.", *baseline.ratio,
                            devices_in_words(baseline, report.result->plans.front()),
                            baseline.place ? ", " + place_in_words(*report.result)
                                           : std::string(baseline.ranked.forecast.may_fit()
                                                             ? ""
                                                             : " and does not fit"));
}

// A cell of what was measured, where anything was.
std::string measured_cell(const SearchReport& report, const std::optional<Seconds>& measured) {
  if (report.run.empty()) return "";
  return fmt::format("<td>{}</td>", measured ? format_duration(*measured) : "");
}

std::optional<Seconds> measured_of(const SearchReport& report, std::size_t place) {
  return place < report.measured.size() ? report.measured[place] : std::nullopt;
}

// `measured`: as measured_cell() has it.
std::string row(std::string_view place, const std::string& name, const Ranked& ranked, Seconds best,
                const std::string& measured) {
  const Forecast& f = ranked.forecast;
  // What a telephone shows comes first.
  return fmt::format(
      "<tr{}><td>{}: {}</td><td>{}</td>{}<td>{:.3f}</td><td>{:.1f} %</td><td>{}</td><td>{}</td>"
      "<td>{}</td><td>{}</td></tr>\n",
      place == "1" ? " class=\"best\"" : "", place, escape(name), format_duration(f.step_time),
      measured, f.step_time / best, f.metrics.bubble_fraction * 100, format_bytes(f.peak_memory()),
      f.devices, f.tokens_per_s ? fmt::format("{:.0f}", *f.tokens_per_s / f.devices) : "",
      f.mfu ? fmt::format("{:.1f} %", 100 * *f.mfu) : "");
}

std::string ranking(const SearchReport& report) {
  std::string text = fmt::format(
      "<tr><th>plan</th><th>forecast step</th>{}<th>over the best</th><th>bubble</th>"
      "<th>peak memory</th><th>devices</th><th>tokens/s a device</th><th>MFU</th></tr>\n",
      report.run.empty() ? "" : "<th>measured</th>");
  const SweepResult& result = *report.result;
  const Seconds best = result.plans.front().forecast.step_time;
  // Numbers are those of the plans that were found, which `weir plan --place` takes; a baseline
  // that is none of them has a row, but no number.
  const auto baseline = [&] {
    const Baseline& b = *result.baseline;
    const char* none = b.ranked.forecast.may_fit() ? "other devices" : "does not fit";
    text += row(b.place ? "baseline" : none, report.baseline_name + (b.place ? "" : " (baseline)"),
                b.ranked, best, measured_cell(report, report.baseline_measured));
  };
  const std::size_t shown = std::min(kRows, report.names.size());
  const bool among = result.baseline && result.baseline->place &&
                     *result.baseline->place <= static_cast<int>(shown);
  for (std::size_t i = 0; i < shown; ++i) {
    // Where its place is among those shown it stands there; else below them.
    const bool its_place = among && *result.baseline->place == static_cast<int>(i) + 1;
    // In short two plans may read alike, and divide their layers or their slots otherwise.
    const bool it_is =
        its_place && step_changes(result.plans[i].plan, result.baseline->ranked.plan).empty();
    if (its_place && !it_is) baseline();
    text += row(std::to_string(i + 1), report.names[i] + (it_is ? " (baseline)" : ""),
                result.plans[i], best, measured_cell(report, measured_of(report, i)));
  }
  if (result.baseline && !among) baseline();
  return html_table(text);
}

std::string rank_table(const Forecast& f) {
  std::string text = "<tr><th>rank</th>" + busy_and_idle_heads() + "<th>peak memory</th></tr>\n";
  for (std::size_t r = 0; r < f.metrics.ranks.size(); ++r) {
    text += fmt::format("<tr><td>{}</td>{}<td>{}</td></tr>\n", r,
                        busy_and_idle_cells(f.metrics.ranks[r]),
                        r < f.memory.size() ? format_bytes(f.memory[r].peak) : "");
  }
  return html_table(text);
}

// Those of the ranking, the baseline's among them.
std::vector<std::string> names_of(const SearchReport& report) {
  std::vector<std::string> names = report.names;
  if (!report.baseline_name.empty()) names.push_back(report.baseline_name);
  return names;
}

// A ranking of the best plan alone would say what stands above it.
bool is_one_row(const SearchReport& report) {
  return report.names.size() == 1 && !report.result->baseline && report.run.empty();
}

// What each of its causes takes, rank by rank; of a plan without any, and of a single rank, whose
// bubble by cause stands above, nothing is left to say.
std::string idle_section(const Forecast& f) {
  if (!is_ever_idle(f.metrics) || f.metrics.ranks.size() == 1) return "";
  return "<h2>Idle time by cause, rank by rank</h2>\n" + rank_table(f);
}

std::string changes_section(const SearchReport& report) {
  if (!report.result->baseline) return "";
  std::string html = "<h2>What changes against the present plan</h2>\n";
  if (report.changes.empty()) return html + "<p>Nothing: it is the best plan.</p>\n";
  if (is_beaten_by_none(*report.result))
    return html + "<p>Nothing: none that was found is faster.</p>\n";
  for (const std::string& line : report.first_changes) html += "<p>" + escape(line) + "</p>\n";
  html += changes_table(report.changes, "present plan");
  for (const std::string& line : report.not_carried) html += "<p>" + escape(line) + "</p>\n";
  return html;
}

Series series_of(std::string name, const std::vector<Ranked>& plans, const Paint& colour,
                 Series::Mark mark) {
  Series series{.name = std::move(name), .points = {}, .colour = colour, .mark = mark};
  for (const Ranked& ranked : plans) {
    const auto bytes = static_cast<double>(ranked.forecast.peak_memory().count());
    series.points.emplace_back(bytes / (1 << 30), ranked.forecast.step_time.count());
  }
  return series;
}

std::string intervals(const SearchReport& report) {
  std::vector<ForecastStep> steps{
      {"best plan", &report.result->plans.front().forecast, measured_of(report, 0)}};
  if (report.present) {
    steps.push_back(
        {"present plan", &report.result->baseline->ranked.forecast, report.baseline_measured});
  }
  return interval_figure(steps);
}

}  // namespace

Chart front_chart(const std::vector<Ranked>& plans, const std::vector<Ranked>& front,
                  const std::optional<Baseline>& baseline) {
  Chart chart{.title = "Step time against memory",
              .x_label = "peak memory of the fullest device, GiB",
              .y_label = "step, s",
              .series = {series_of("plans", plans, kMuted, Series::Mark::dots),
                         series_of("Pareto front", front, kBlue, Series::Mark::line)}};
  chart.from_zero = false;  // plans are compared
  if (baseline)
    chart.series.push_back(series_of("present plan", {baseline->ranked}, kRed, Series::Mark::dots));
  return chart;
}

std::string search_cell(const SearchReport& report, std::size_t drawn) {
  std::vector<Ranked> plans = report.result->plans;
  plans.resize(std::min(plans.size(), drawn));
  Chart chart = front_chart(plans, *report.front, report.result->baseline);
  chart.width = kPaperChart;
  return fmt::format("<p>{}</p>\n{}<p>{} candidates, {} fit.</p>\n{}", first_sentence(report),
                     ranking(report), report.result->candidates, report.result->feasible,
                     to_svg(draw_chart(chart)));
}

std::string search_html(const SearchReport& report) {
  const SweepResult& result = *report.result;
  const Ranked& best = result.plans.front();
  std::string html = fmt::format(
      "<p>{}</p>\n{}{}{}<h2>The best plans</h2>\n{}{}<p class=\"note\">{} candidates, {} fit; {}. "
      "Costs: {}. Machine: {}. {}.</p>\n",
      first_sentence(report), facts(best.forecast), intervals(report), changes_section(report),
      is_one_row(report) ? "<p>No other is listed; its figures stand above.</p>\n"
                         : ranking(report),
      legend_note(names_of(report)), result.candidates, result.feasible,
      report.run.empty() ? std::string("nothing was run") : escape(report.run),
      escape(report.costs_origin), escape(report.machine), escape(report.trust));
  // On one scale, where the two are not the same.
  const bool two = report.present.has_value();
  std::vector<TimelinePanel> panels{{two ? "best plan" : "", {{&report.best, 0, "predicted"}}}};
  if (two) panels.push_back({"present plan", {{&*report.present, 0, "predicted"}}});
  html += (two ? std::string("<h2>Timelines of the best plan and the present one</h2>\n")
               : std::string("<h2>Timeline of the best plan</h2>\n")) +
          timeline_figure(draw_timeline(panels, {.width = 800, .held = true}));
  html += "<h2>The best plan's bubble by cause</h2>\n" +
          bubble_table({{"predicted", shares_of(best.forecast.metrics)}});
  html += "<h2>Its memory by kind, at each rank's peak</h2>\n" + memory_table(best.forecast.memory);
  html += idle_section(best.forecast);
  html += explained_sections(report.explained);
  html += "<h2>Step time against memory</h2>\n" +
          chart_figure(front_chart(result.plans, *report.front, result.baseline));
  const ReportCard card{.command = "sweep",
                        .model = report.model,
                        .machine = report.machine,
                        .date = report.provenance.date,
                        .plan = report.names.front(),
                        .forecast = best.forecast.step_time};
  return html_page("weir sweep: " + report.model, card_part(card) + html, report.provenance);
}

}  // namespace weir
