// What people read of `weir reproduce`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/reproduce/reproduce.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "plan/words/figures.hpp"
#include "tools/reproduce/measured/reasons.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {
namespace {

// All lines of a paper's table; of hundreds of measured runs only those off by more than 2x.
std::vector<ReproductionLine> shown(const CaseResult& result) {
  constexpr std::size_t kMost = 150;
  std::vector<ReproductionLine> lines = result.lines;
  if (lines.size() <= kMost) return lines;
  std::erase_if(lines, [](const ReproductionLine& line) {
    return line.predicted < 2 * line.published && line.published < 2 * line.predicted;
  });
  return lines;
}

Cell figure(double value, int digits = 5) { return number(value, format_figure(value, digits)); }

void print_case(Printout& out, const CaseResult& result) {
  const std::vector<ReproductionLine> lines = shown(result);
  Table table{{left("case"),
               left("row"),
               left("quantity"),
               {"published"},
               {"predicted"},
               {"error"},
               left("role")},
              {},
              {}};
  for (const ReproductionLine& line : lines) {
    table.rows.push_back({result.name, line.row, line.quantity, figure(line.published),
                          figure(line.predicted), percent(line.error(), "{:+.1f} %"),
                          std::string(to_string(line.role))});
  }
  out.show(table);
  // A long case prints what is wrong with it.
  if (lines.size() < result.lines.size()) {
    out.say("{}: {} of {} lines, those off by more than 2x; --csv FILE has all\n", result.name,
            lines.size(), result.lines.size());
  }
  for (const Anomaly& a : result.anomalies) {
    out.say("{}  {}: {}: published {}, predicted {}: anomaly: {}\n", result.name, a.row, a.quantity,
            format_figure(a.published, 5), format_figure(a.predicted, 5), a.reason);
  }
  for (const std::string& note : result.notes) out.say("{}: {}\n", result.name, note);
  out.say("\n");
}

void print_summaries(Printout& out, const std::vector<CaseResult>& results) {
  const auto share = [](double of) { return percent(of, "{:.2f} %"); };
  Table table{{left("case"), left("role"), {"numbers"}, {"median"}, {"mean"}, {"worst"}}, {}, {}};
  for (const CaseResult& result : results) {
    for (const ErrorSummary& s : summaries(result)) {
      table.rows.push_back({result.name, std::string(to_string(s.role)), s.numbers, share(s.median),
                            share(s.mean), share(s.worst)});
    }
  }
  out.show(table);
}

// A share as a percentage for people, anything else as it is.
Cell figure(const AimLine& line, double value) {
  const bool count = line.statistic.starts_with("rows") || line.statistic.starts_with("worse");
  if (count || line.statistic.starts_with("tau") || line.statistic.starts_with("widest"))
    return figure(value, 4);
  return number(value, fmt::format("{:.1f} %", value * 100));
}

void print_aims(Printout& out, const CrossValidation& whole) {
  Table table{{left("what"),
               left("forecast"),
               left("statistic"),
               {"rows"},
               {"figure"},
               {"aim"},
               left("reached")},
              {},
              {}};
  for (const AimLine& line : whole.aims) {
    // Without rows an aim is neither reached nor missed.
    const auto reached = line.reached();
    Cell aim = line.aim ? figure(line, *line.aim) : "";
    for (std::string* of : {&aim.text, &aim.exact})
      if (line.aim) of->insert(0, line.at_least ? ">= " : "<= ");
    table.rows.push_back({line.what, line.method, line.statistic, line.rows,
                          line.figure ? figure(line, *line.figure) : "no row", aim,
                          !reached   ? ""
                          : *reached ? "reached"
                                     : "missed"});
  }
  out.show(table);
  bool first = true;
  for (const AimLine& line : whole.aims) {
    // Missed aims are told with what is known of the reason.
    if (line.reached() != std::optional(false)) continue;
    if (std::exchange(first, false)) out.say("\nmissed, as far as is known because:\n");
    out.say("{}, {}: {}\n", line.what, line.method, known_reason(line));
  }
}

Cell share_cell(double share) { return percent(share, "{:.1f} %"); }

Cell decimals(double value, int count) {
  return number(value, fmt::format("{:.{}f}", value, count));
}

void print_groups(Printout& out, const CrossValidation& whole) {
  out.say("\n");
  Table table{{left("cluster"),
               left("stack"),
               left("of"),
               {"rows"},
               {"level"},
               {"others"},
               {"as comes"},
               {"left out"},
               {"anchored"},
               {"interval"},
               {"covers"}},
              {},
              {}};
  for (const GroupLine& line : whole.groups) {
    // Intervals are of logarithms: as a share of the forecast, upwards.
    const Cell interval =
        line.interval ? percent(std::expm1(line.interval->half_width), "{:.0f} %") : "";
    table.rows.push_back({line.cluster, line.stack, line.is_memory ? "memory" : "time", line.rows,
                          decimals(line.level, 3), decimals(line.level_of_others, 3),
                          share_cell(line.as_it_comes), share_cell(line.left_out),
                          share_cell(line.anchored), interval, percent(line.coverage, "{:.0f} %")});
  }
  out.show(table);
}

void print_sources(Printout& out, const CrossValidation& whole) {
  out.say("\n");
  for (const SourceLine& line : whole.sources) {
    out.say("{}: {} rows, {} forecast, {} failed, {} not healthy", line.source, line.rows,
            line.forecast, line.failed, line.unhealthy);
    for (const std::string& why : line.without) out.say("; without a forecast {}", why);
    out.say("\n");
  }
}

Cell percent_of(const Proportion& share) {
  if (share.of == 0) return "-";
  return number(share.value() * 100,
                fmt::format("{} of {}", share_cell(share.value()).text, share.of), "%");
}

// What a user gets who names no software, of sources that nothing was chosen on.
void print_defaults(Printout& out, const CrossValidation& whole) {
  out.say("by the default call, each source left out of what was chosen:\n");
  Table table{{left("source"),
               {"rows"},
               {"median"},
               {"p95"},
               {"bias"},
               {"grids"},
               {"tau"},
               {"regret"},
               {"worst"},
               {"failed, called fitting"},
               {"ran, called no"},
               {"covered"},
               {"upper / lower"}},
              {},
              {}};
  for (const DefaultLine& line : whole.defaults) {
    // A source may have runs alone, or grids alone.
    const auto of_rows = [&](const Cell& cell) { return line.rows > 0 ? cell : "-"; };
    const auto of_grids = [&](const Cell& cell) { return line.grids > 0 ? cell : "-"; };
    table.rows.push_back(
        {line.source, line.rows, of_rows(share_cell(line.median)), of_rows(share_cell(line.p95)),
         of_rows(percent(line.bias, "{:+.1f} %")), line.grids, of_grids(decimals(line.tau, 2)),
         of_grids(share_cell(line.regret)), of_grids(share_cell(line.worst_regret)),
         percent_of(line.failed_called_fitting), percent_of(line.ran_called_no),
         percent_of(line.covered), line.width > 0 ? decimals(line.width, 2) : "-"});
  }
  out.show(table);
}

// What one choice does to a step.
void print_effects(Printout& out, const CrossValidation& whole) {
  out.say("\npairs of runs that differ in one choice alone, by the same call:\n");
  Table table{{left("choice"),
               {"pairs"},
               {"sources"},
               {"measured"},
               {"forecast"},
               {"error of the ratio"},
               {"to the right side"}},
              {},
              {}};
  for (const FactorEffect& effect : whole.effects) {
    table.rows.push_back({std::string(to_string(effect.factor)), effect.pairs, effect.sources,
                          decimals(effect.measured, 3), decimals(effect.forecast, 3),
                          share_cell(effect.error), percent_of({effect.agreeing, effect.apart})});
  }
  out.show(table);
  out.say("\n");
}

void print_cross_validation(Printout& out, const CrossValidation& whole) {
  print_defaults(out, whole);
  print_effects(out, whole);
  print_aims(out, whole);
  print_groups(out, whole);
  print_sources(out, whole);
  // The worst rows by name: a median hides them.
  out.say("\noff by more than 2x when left out:\n");
  for (const JudgedLine& line : whole.lines) {
    if (line.off_by_more_than_2x())
      out.say("{}: {}: {}: measured {}, forecast {}\n", line.run->source, line.run->row,
              line.quantity(), format_figure(line.published, 5), format_figure(line.left_out, 5));
  }
  for (const std::string& row : whole.crashes)
    out.say("{}: failed though its neighbours had room: taken as a crash\n", row);
  for (const std::string& note : whole.notes) out.say("{}\n", note);
}

}  // namespace

void print(Printout& out, const app::ReproduceRequest& request,
           const app::ReproduceResult& result) {
  if (request.list) {
    Table table{{left("case"), left("what is forecast")}, {}, {}};
    for (const ReproductionCase& c : reproduction_cases())
      table.rows.push_back({std::string(c.name), std::string(c.about)});
    return out.show(table);
  }
  if (result.cross_validation) {
    print_cross_validation(out, *result.cross_validation);
    return;
  }
  for (const CaseResult& one : result.cases) print_case(out, one);
  print_summaries(out, result.cases);
}

}  // namespace weir
