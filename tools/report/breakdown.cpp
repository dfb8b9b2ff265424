// Tables of time and memory by what they are spent on.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/breakdown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "plan/job/summary.hpp"
#include "plan/words/figures.hpp"
#include "tools/report/page.hpp"
#include "tools/report/svg.hpp"

namespace weir {

std::string limited_by(const StepMetrics& step, double bubble) {
  constexpr std::array kLimits{IdleCause{"filling the pipeline", &IdleTime::fill},
                               IdleCause{"draining it", &IdleTime::drain},
                               IdleCause{"imbalance between stages", &IdleTime::imbalance},
                               IdleCause{"communication", &IdleTime::communication},
                               IdleCause{"the host", &IdleTime::host},
                               IdleCause{"waiting for the optimizer", &IdleTime::optimizer}};
  // With so little idle time its causes are noise.
  if (bubble < 0.05) return "the work itself (bubble below 5 %)";
  const auto whole = [&step](const IdleCause& cause) {
    Nanoseconds sum{0};
    for (const RankMetrics& rank : step.ranks) sum += rank.idle.*cause.time;
    return sum;
  };
  // The first of equals wins, in the order of a step.
  return std::ranges::max_element(kLimits, {}, whole)->name;
}

std::string fit_word(const Forecast& f) {
  if (f.fits() != Fits::maybe) return std::string(to_string(f.fits()));
  return fmt::format("{:.0f} %", 100 * f.fits_probability());
}

std::string disturbance_warning(const std::string& disturbed) {
  if (disturbed.empty()) return "";
  return fmt::format(
      "<p><b>The machine was disturbed: {}.</b> What is measured here is as doubtful.</p>\n",
      escape(disturbed));
}

std::string changes_table(const std::vector<ReportChange>& changes, const std::string& before,
                          const std::string& after) {
  // A single one is a sentence.
  if (changes.size() == 1) {
    const auto& [name, was, is] = changes.front();
    return fmt::format("<p>Only {}: {} ({}), {} ({}).</p>\n", escape(name),
                       was.empty() ? "-" : escape(was), escape(before),
                       is.empty() ? "-" : escape(is), escape(after));
  }
  std::string rows =
      fmt::format("<tr><th></th><th>{}</th><th>{}</th></tr>\n", escape(before), escape(after));
  const auto cell = [](const std::string& text) {
    return "<td>" + (text.empty() ? std::string("-") : escape(text)) + "</td>";
  };
  for (const ReportChange& change : changes)
    rows += "<tr>" + cell(change.name) + cell(change.before) + cell(change.after) + "</tr>\n";
  return words_table(rows);
}

std::string facts(const Forecast& f, std::optional<Seconds> measured) {
  // Work done is the same: rates are in the ratio of the times.
  const double faster = measured ? f.step_time / *measured : 1;
  std::string rows;
  const auto row = [&rows](const char* name, const std::string& value) {
    rows += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, value);
  };
  row(measured ? "step, measured" : "step, forecast",
      format_duration(measured.value_or(f.step_time)));
  row("bubble, forecast", fmt::format("{:.1f} %", f.metrics.bubble_fraction * 100));
  row("peak memory, forecast",
      format_bytes(f.peak_memory()) +
          (f.memory_limit ? " of " + format_bytes(*f.memory_limit) : std::string()));
  if (f.host) {
    row("with a node's host, forecast",
        format_bytes(f.host->held()) + " of " + format_bytes(f.host->memory));
  }
  row("devices", std::to_string(f.devices));
  // Tokens where the model has sequences, else samples.
  if (f.tokens_per_s) {
    row("tokens/s a device", format_figure(*f.tokens_per_s * faster / f.devices, 4));
  } else if (f.samples_per_s) {
    row("samples/s a device", format_figure(*f.samples_per_s * faster / f.devices, 4));
  }
  if (f.model_tflops_per_device)
    row("model TFLOP/s a device", format_figure(*f.model_tflops_per_device * faster, 4));
  if (f.mfu) row("MFU", fmt::format("{:.1f} %", *f.mfu * faster * 100));
  return "<dl>\n" + rows + "</dl>\n";
}

bool is_ever_idle(const StepMetrics& step) {
  return std::ranges::any_of(
      step.ranks, [](const RankMetrics& rank) { return rank.idle.total() > Nanoseconds(0); });
}

std::string legend_note(const std::vector<std::string>& names) {
  return "<p class=\"note\">Plans in short: " + escape(legend_of_summaries(names)) + ".</p>\n";
}

std::string bubble_table(const std::vector<BubbleColumn>& columns) {
  const bool idle = std::ranges::any_of(columns, [](const BubbleColumn& column) {
    return std::ranges::any_of(column.shares, [](double share) { return share != 0; });
  });
  if (!idle) return "<p>No rank is ever idle: the bubble is 0.</p>\n";
  std::string rows = "<tr><th>idle, of all ranks' time</th>";
  for (const BubbleColumn& column : columns)
    rows += fmt::format("<th>{}</th>", escape(column.name));
  rows += "</tr>\n";
  for (std::size_t cause = 0; cause < kIdleCauses.size(); ++cause) {
    rows += fmt::format("<tr><td>{}</td>", kIdleCauses[cause].name);
    for (const BubbleColumn& column : columns)
      rows += fmt::format("<td>{:.2f} %</td>", column.shares[cause] * 100);
    rows += "</tr>\n";
  }
  rows += "<tr class=\"best\"><td>bubble</td>";
  for (const BubbleColumn& column : columns) {
    // The causes sum to the bubble, so the last row needs no figure of its own.
    const double all = std::accumulate(column.shares.begin(), column.shares.end(), 0.0);
    rows += fmt::format("<td>{:.2f} %</td>", all * 100);
  }
  return html_table(rows + "</tr>\n");
}

std::string busy_and_idle_heads() {
  std::string heads = "<th>busy</th>";
  for (const IdleCause& cause : kIdleCauses) heads += fmt::format("<th>{}</th>", cause.name);
  return heads;
}

std::string busy_and_idle_cells(const RankMetrics& rank) {
  const auto cell = [](Nanoseconds time) {
    return fmt::format("<td>{}</td>", format_duration(to_seconds(time)));
  };
  std::string cells = cell(rank.busy);
  for (const IdleCause& cause : kIdleCauses) cells += cell(rank.idle.*cause.time);
  return cells;
}

std::string memory_table(const std::vector<RankMemory>& ranks) {
  // Kinds that no rank holds would be columns of zeros.
  std::vector<MemoryKind> held;
  for (const MemoryKind kind : kMemoryKinds) {
    if (std::ranges::any_of(
            ranks, [kind](const RankMemory& rank) { return rank.at_peak[kind].count() > 0; }))
      held.push_back(kind);
  }
  if (ranks.size() == 1) {
    std::string text =
        fmt::format("<p>The one rank holds {} at its peak", format_bytes(ranks.front().peak));
    const char* before = ": ";
    for (const MemoryKind kind : held) {
      text += fmt::format("{}{} {}", before, to_string(kind),
                          format_bytes(ranks.front().at_peak[kind]));
      before = ", ";
    }
    return text + ".</p>\n";
  }
  std::string rows = "<tr><th>rank</th>";
  for (const MemoryKind kind : held) rows += fmt::format("<th>{}</th>", to_string(kind));
  rows += "<th>peak</th></tr>\n";
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    rows += fmt::format("<tr><td>{}</td>", rank);
    for (const MemoryKind kind : held)
      rows += fmt::format("<td>{}</td>", format_bytes(ranks[rank].at_peak[kind]));
    rows += fmt::format("<td>{}</td></tr>\n", format_bytes(ranks[rank].peak));
  }
  return html_table(rows);
}

}  // namespace weir
