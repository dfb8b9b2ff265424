// What people read of `weir tune`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/tune.hpp"

#include <fmt/core.h>

#include "tools/weir/commands.hpp"
#include "tools/weir/terminal.hpp"

namespace weir {

void print(const app::TuneRequest& request, const app::TuneResult& result) {
  const auto& [report, best] = result;
  say("{}\nmedian error {:.1f} % as first predicted{}\n", report_table(report),
      report.error_before * 100,
      report.error_after
          ? fmt::format(", {:.1f} % after recalibration (each plan left out of its own fit)",
                        *report.error_after * 100)
          : "; no other plan was run to recalibrate it by");
  say("best by recalibrated costs: {}, predicted {}\n", summary(best.plan),
      format_duration(best.forecast.step_time));
  say("{}\n", (request.output / "report.html").string());
}

}  // namespace weir
