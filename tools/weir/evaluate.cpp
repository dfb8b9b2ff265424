// What people read of `weir evaluate`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/evaluate/evaluate.hpp"

#include <fmt/core.h>

#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {

void print(Printout& out, const app::EvaluateRequest& request, const app::EvaluateResult& result) {
  const EvaluationReport& report = result.report;
  Table table{{left("held-out plan"), {"forecast"}, {"measured"}, {"error"}, left("note")}, {}, {}};
  for (const Outcome& outcome : report.outcomes) {
    // Only misses are marked.
    table.rows.push_back({summary(outcome.plan), outcome.predicted, outcome.measured(),
                          percent(outcome.error(), "{:+.1f}%"),
                          outcome.interval && !outcome.inside() ? "outside its interval" : ""});
  }
  out.show(table);
  out.say("\n{}\nidle, predicted / measured:", accuracy_text(report));
  for (std::size_t c = 0; c < kIdleCauses.size(); ++c) {
    out.say(" {} {:.1f} / {:.1f} %{}", kIdleCauses[c].name, report.idle.predicted[c] * 100,
            report.idle.measured[c] * 100, c + 1 < kIdleCauses.size() ? "," : "\n");
  }
  if (!report.sharing.empty()) out.say("{}\n", report.sharing);
  out.say("{}\n", (request.output / "report.html").string());
}

}  // namespace weir
