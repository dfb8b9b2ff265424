// What people read of `weir calibrate`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/calibrate/calibrate.hpp"

#include <fmt/core.h>

#include <cmath>

#include "plan/words/figures.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {
namespace {

constexpr std::string_view kRateUnit = "bytes/s";

Cell rate(BytesPerSecond value) {
  if (value.count() <= 0) return {"unlimited", "unlimited", kRateUnit};
  return number(value.count(), format_figure(value.count() / 1e9, 4) + " GB/s", kRateUnit);
}

void print_fits(Printout& out, const std::vector<FittedTest>& tests) {
  if (tests.empty()) return;
  Table table{{left("test"),
               {"ranks"},
               {"nodes"},
               {"from"},
               {"to"},
               {"latency"},
               {"bus bandwidth"},
               {"residual"}},
              {},
              {}};
  for (const FittedTest& t : tests) {
    for (const FittedRange& range : t.fit.ranges) {
      table.rows.push_back({t.test.collective, t.test.ranks, t.test.nodes, range.smallest,
                            range.largest, range.latency, rate(range.bandwidth),
                            percent(range.median_residual)});
    }
  }
  out.show(table);
}

void print_links(Printout& out, const app::LinkResult& links) {
  print_fits(out, links.tests);
  for (const std::string& line : links.taken) out.say("{}\n", line);
  out.say("{}\n", links.output->string());
}

void print_anchor(Printout& out, const CostAnchor& anchor) {
  out.say("{}, {}\n", anchor.cluster, anchor.device);
  Table table{
      {left("measured run"), {"step"}, {"residual"}, {"peak memory"}, {"residual"}}, {}, {}};
  for (const AnchorRun& run : anchor.runs) {
    table.rows.push_back(
        {run.plan + "=" + run.figure, run.step_time, percent(std::expm1(run.residual), "{:+.2f}%"),
         run.memory ? Cell(*run.memory) : "-",
         run.memory_residual ? percent(std::expm1(*run.memory_residual), "{:+.2f}%") : "-"});
  }
  out.show(table);
}

}  // namespace

void print(Printout& out, const app::CalibrateRequest& request,
           const app::CalibrateResult& result) {
  if (result.links) return print_links(out, *result.links);
  const auto& [costs, quality] = result.fit;
  Table table{{left("action"), {"factor"}, {"observations"}, {"median residual"}}, {}, {}};
  for (const FitQuality& q : quality) {
    table.rows.push_back({q.kind, number(q.factor, fmt::format("{:.3f}", q.factor)), q.observations,
                          percent(q.median_residual, "{:.2f}%")});
  }
  out.show(table);
  // Anchored costs have a device and runs, and no overheads of a host.
  if (costs.anchor) {
    if (const auto remark = app::remark_on(request.stack, costs.anchor->stack)) note(*remark);
    print_anchor(out, *costs.anchor);
    out.say("{}\n", request.output->string());
    return;
  }
  out.say("host overhead {}, step overhead {}\n{}\n", format_duration(costs.host_overhead),
          format_duration(costs.step_overhead), request.output->string());
}

}  // namespace weir
