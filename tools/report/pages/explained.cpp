// Draws intervals and waterfalls, and tells changes.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/pages/explained.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "tools/report/bars.hpp"
#include "tools/report/breakdown.hpp"
#include "tools/report/page.hpp"
#include "tools/report/svg.hpp"

namespace weir {
namespace {

constexpr std::size_t kMostChanges = 10;
// Of the plan to use, and of what it is held against, whether or not both are explained.
constexpr std::array kColours{kBlue, kMuted};

const Paint& colour_of(std::size_t place) { return kColours[std::min(place, kColours.size() - 1)]; }

std::string interval_label(const ForecastStep& step) {
  const Forecast& f = *step.forecast;
  std::string text = fmt::format("{}: {}", step.name, format_duration(f.step_time));
  text += f.interval ? fmt::format(" ({} to {})", format_duration(f.interval->low),
                                   format_duration(f.interval->high))
                     : std::string(", no interval");
  if (step.measured) text += ", measured " + format_duration(*step.measured);
  return text;
}

double share_of(Nanoseconds time, const Waterfall& fall) {
  return fall.step.count() > 0 ? to_seconds(time) / to_seconds(fall.step) : 0;
}

// One that has a waterfall, in its role's colour.
struct Explained {
  const StepExplained* plan;
  Paint colour;
};

// The parts that take time in any of the plans, in the order of the first that has them.
std::vector<std::string_view> parts_of(const std::vector<Explained>& plans) {
  std::vector<std::string_view> names;
  for (const Explained& one : plans) {
    auto after = names.begin();
    for (const auto& [name, time] : one.plan->waterfall.parts) {
      const auto at = std::ranges::find(names, name);
      if (at != names.end()) {
        after = at + 1;
      } else if (time.count() != 0) {
        after = names.insert(after, name) + 1;
      }
    }
  }
  return names;
}

BarChart waterfall_chart(const std::vector<Explained>& plans,
                         const std::vector<std::string_view>& parts, bool named) {
  BarChart chart;
  if (named) {
    for (const auto& [plan, colour] : plans) chart.legend.emplace_back(plan->name, colour);
  }
  // Each part begins where the one before it ended.
  std::vector<Nanoseconds> ends(plans.size(), Nanoseconds(0));
  for (const std::string_view part : parts) {
    BarRow row{std::string(part_in_words(part)), {}};
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const Nanoseconds time = plans[i].plan->waterfall.of(part);
      row.bars.push_back({.from = to_seconds(ends[i]),
                          .to = to_seconds(ends[i] + time),
                          .fill = plans[i].colour,
                          .text = format_duration(to_seconds(time))});
      ends[i] += time;
    }
    chart.rows.push_back(std::move(row));
  }
  return chart;
}

std::string waterfall_table(const std::vector<Explained>& plans,
                            const std::vector<std::string_view>& parts) {
  std::string rows = "<tr><th>mean over ranks</th>";
  for (const Explained& one : plans)
    rows += fmt::format("<th>{}</th><th>share</th>", escape(one.plan->name));
  rows += "</tr>\n";
  const auto cells = [](Nanoseconds time, const Waterfall& fall) {
    return fmt::format("<td>{}</td><td>{:.1f} %</td>", format_duration(to_seconds(time)),
                       100 * share_of(time, fall));
  };
  for (const std::string_view part : parts) {
    rows += fmt::format("<tr><td>{}</td>", part_in_words(part));
    for (const Explained& one : plans)
      rows += cells(one.plan->waterfall.of(part), one.plan->waterfall);
    rows += "</tr>\n";
  }
  rows += "<tr class=\"best\"><td>forecast step</td>";
  for (const Explained& one : plans) rows += cells(one.plan->waterfall.step, one.plan->waterfall);
  return html_table(rows + "</tr>\n");
}

// "the best plan"; "the present plan" and "one rank alone" as they are.
std::string with_article(const std::string& name) {
  const bool has = name.starts_with("the ") || name.starts_with("one ");
  return (has ? "" : "the ") + escape(name);
}

std::string where_it_goes(const std::vector<StepExplained>& plans) {
  std::string html;
  std::vector<Explained> known;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const StepExplained& plan = plans[i];
    if (plan.unexplained.empty()) {
      known.push_back({&plan, colour_of(i)});
    } else {
      html += fmt::format("<p class=\"note\">It is not said of {}: {}.</p>\n",
                          with_article(plan.name), escape(plan.unexplained));
    }
  }
  if (known.empty()) return html;
  const std::vector<std::string_view> parts = parts_of(known);
  if (parts.size() == 1 && plans.size() == 1)
    return fmt::format("<p>All of the step is {}.</p>\n", part_in_words(parts.front()));
  return bars_figure(waterfall_chart(known, parts, plans.size() > 1)) +
         waterfall_table(known, parts) + html;
}

std::string name_of(const Change& change) { return change.choice + ": " + change.to; }

// A change that can be, and that may fit: in words where it is the only one.
std::string change_sentence(const WhatIf& row) {
  return fmt::format("<p>{}: {:+.1f} %, {} a step, {} on its fullest device.</p>\n",
                     escape(name_of(row.change)), 100 * row.gain,
                     format_duration(row.forecast->step_time),
                     format_bytes(row.forecast->peak_memory()));
}

std::string change_row(const WhatIf& row) {
  const Forecast& f = *row.forecast;
  return fmt::format("<tr><td>{}</td><td>{:+.1f} %</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                     escape(name_of(row.change)), 100 * row.gain, format_duration(f.step_time),
                     format_bytes(f.peak_memory()), fit_word(f));
}

// What is not among the rows: changes that bring less, those that the stack has not, and those that
// cannot be; and why there may be more.
std::string the_rest(const StepExplained& plan, std::size_t shown, std::size_t possible) {
  const std::size_t less = possible - shown;
  const auto beyond = static_cast<std::size_t>(std::ranges::count_if(
      plan.what_if, [](const WhatIf& row) { return !row.change.beyond.empty(); }));
  const std::size_t others = plan.what_if.size() - possible - beyond;
  std::vector<std::string> parts;
  if (less > 0) parts.push_back(fmt::format("{} bring{} less", less, less == 1 ? "s" : ""));
  if (others > 0) parts.push_back(fmt::format("{} cannot be, or would not fit", others));
  if (beyond > 0) {
    parts.push_back(fmt::format("{} {} not in {}", beyond, beyond == 1 ? "is" : "are",
                                plan.stack.empty() ? "the stack" : escape(plan.stack)));
  }
  std::string text;
  if (!parts.empty()) {
    text = fmt::format("Of the other changes {}; <code>weir explain</code> lists them. ",
                       fmt::join(parts, ", "));
  }
  if (!plan.cut.empty() && !plan.what_if.empty())
    text += fmt::format("Not every change was forecast: {}. ", escape(plan.cut));
  if (text.empty()) return "";
  text.pop_back();
  return fmt::format("<p class=\"note\">{}</p>\n", text);
}

// Of no change that can be made: whether that is known of all of them.
std::string none_sentence(const StepExplained& plan) {
  if (plan.cut.empty()) return "<p>No single change can be made to it that fits.</p>\n";
  if (plan.what_if.empty())
    return fmt::format("<p>No change was forecast: {}.</p>\n", escape(plan.cut));
  return fmt::format(
      "<p>None of the first {} that were looked at can be made to it and fits.</p>\n",
      plan.what_if.size());
}

std::string changes_of(const StepExplained& plan) {
  std::vector<const WhatIf*> possible;
  for (const WhatIf& row : plan.what_if) {
    // Those that the stack has and that may fit stand first, by what they bring.
    if (row.forecast && row.forecast->may_fit() && row.change.beyond.empty())
      possible.push_back(&row);
  }
  const std::size_t shown = std::min(possible.size(), kMostChanges);
  std::string html = fmt::format("<h3>Of {}</h3>\n", with_article(plan.name));
  if (possible.empty()) {
    html += none_sentence(plan);
  } else if (shown == 1) {
    html += change_sentence(*possible.front());
  } else {
    // Broken where a telephone has no room for the word.
    std::string rows =
        "<tr><th>change</th><th>more samples/s</th><th>fore&#173;cast step</th><th>peak memory</th>"
        "<th>fits</th></tr>\n";
    for (std::size_t i = 0; i < shown; ++i) rows += change_row(*possible[i]);
    html += html_table(rows);
  }
  return html + the_rest(plan, shown, possible.size());
}

}  // namespace

std::string interval_figure(const std::vector<ForecastStep>& steps) {
  BarChart chart{.title = "Forecast step", .labels_above = true};
  const auto known = std::ranges::find_if(
      steps, [](const ForecastStep& step) { return step.forecast->interval.has_value(); });
  if (known != steps.end()) {
    chart.title = fmt::format("Forecast step with its {:.3g} % interval",
                              100 * known->forecast->interval->nominal);
  }
  const bool run = std::ranges::any_of(
      steps, [](const ForecastStep& step) { return step.measured.has_value(); });
  if (run) chart.legend = {{"measured", kRed}};
  // One bar alone that says no more than its number is left out.
  if (known == steps.end() && steps.size() == 1 && !run) return "";
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Forecast& f = *steps[i].forecast;
    Bar bar{.to = f.step_time, .fill = colour_of(i), .mark = steps[i].measured};
    if (f.interval) bar.interval = {f.interval->low, f.interval->high};
    chart.rows.push_back({interval_label(steps[i]), {std::move(bar)}});
  }
  return bars_figure(std::move(chart));
}

std::string explained_sections(const std::vector<StepExplained>& plans) {
  if (plans.empty()) return "";
  std::string html = "<h2>Where the forecast step goes</h2>\n" + where_it_goes(plans);
  std::string changes;
  for (const StepExplained& plan : plans) {
    if (plan.unexplained.empty()) changes += changes_of(plan);
  }
  if (changes.empty()) return html;
  return html + "<h2>What one change would bring</h2>\n" + changes;
}

}  // namespace weir
