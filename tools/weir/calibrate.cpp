// What people read of `weir calibrate`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/calibrate.hpp"

#include <fmt/core.h>

#include <cmath>

#include "tools/weir/commands.hpp"
#include "tools/weir/terminal.hpp"

namespace weir {
namespace {

std::string rate(BytesPerSecond value) {
  return value.count() > 0 ? fmt::format("{:.4g} GB/s", value.count() / 1e9) : "unlimited";
}

void print_fits(const std::vector<FittedTest>& tests) {
  if (tests.empty()) return;
  say("{:<15} {:>5} {:>5} {:>12} {:>12} {:>10} {:>14} {:>9}\n", "test", "ranks", "nodes", "from",
      "to", "latency", "bus bandwidth", "residual");
  for (const FittedTest& t : tests) {
    for (const FittedRange& range : t.fit.ranges) {
      say("{:<15} {:>5} {:>5} {:>12} {:>12} {:>10} {:>14} {:>8.1f}%\n", t.test.collective,
          t.test.ranks, t.test.nodes, format_bytes(range.smallest), format_bytes(range.largest),
          format_duration(range.latency), rate(range.bandwidth), 100 * range.median_residual);
    }
  }
}

void print_links(const app::LinkResult& links) {
  print_fits(links.tests);
  for (const std::string& line : links.taken) say("{}\n", line);
  say("{}\n", links.output->string());
}

void print_anchor(const CostAnchor& anchor) {
  say("{}, {}\n{:<44} {:>10} {:>9} {:>11} {:>9}\n", anchor.cluster, anchor.device, "measured run",
      "step", "residual", "peak memory", "residual");
  for (const AnchorRun& run : anchor.runs) {
    say("{:<44} {:>10} {:>+8.2f}% {:>11} {:>9}\n", run.plan + "=" + run.figure,
        format_duration(run.step_time), 100 * std::expm1(run.residual),
        run.memory ? format_bytes(*run.memory) : "-",
        run.memory_residual ? fmt::format("{:+.2f}%", 100 * std::expm1(*run.memory_residual))
                            : "-");
  }
}

}  // namespace

void print(const app::CalibrateRequest& request, const app::CalibrateResult& result) {
  if (result.links) return print_links(*result.links);
  const auto& [costs, quality] = result.fit;
  say("{:<18} {:>8} {:>13} {:>16}\n", "action", "factor", "observations", "median residual");
  for (const FitQuality& q : quality) {
    say("{:<18} {:>8.3f} {:>13} {:>15.2f}%\n", q.kind, q.factor, q.observations,
        q.median_residual * 100);
  }
  if (costs.anchor) {
    if (const auto remark = app::remark_on(request.stack, costs.anchor->stack)) note(*remark);
    print_anchor(*costs.anchor);
    say("{}\n", request.output->string());
    return;
  }
  say("host overhead {}, step overhead {}\n{}\n", format_duration(costs.host_overhead),
      format_duration(costs.step_overhead), request.output->string());
}

}  // namespace weir
