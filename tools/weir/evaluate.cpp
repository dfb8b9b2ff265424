// What people read of `weir evaluate`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/evaluate.hpp"

#include <fmt/core.h>

#include "tools/weir/commands.hpp"
#include "tools/weir/terminal.hpp"

namespace weir {

void print(const app::EvaluateRequest& request, const app::EvaluateResult& result) {
  const EvaluationReport& report = result.report;
  say("{:<36} {:>10} {:>10} {:>8}\n", "held-out plan", "forecast", "measured", "error");
  for (const Outcome& outcome : report.outcomes) {
    say("{:<36} {:>10} {:>10} {:>+7.1f}%{}\n", summary(outcome.plan),
        format_duration(outcome.predicted), format_duration(outcome.measured()),
        outcome.error() * 100,
        outcome.interval && !outcome.inside() ? "  outside its interval" : "");
  }
  say("\n{}\nidle, predicted / measured:", accuracy_text(report));
  for (std::size_t c = 0; c < kIdleCauses.size(); ++c) {
    say(" {} {:.1f} / {:.1f} %{}", kIdleCauses[c].name, report.idle.predicted[c] * 100,
        report.idle.measured[c] * 100, c + 1 < kIdleCauses.size() ? "," : "\n");
  }
  if (!report.sharing.empty()) say("{}\n", report.sharing);
  say("{}\n", (request.output / "report.html").string());
}

}  // namespace weir
