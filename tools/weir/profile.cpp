// What people read of `weir profile`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/profile.hpp"

#include <fmt/core.h>

#include "tools/weir/commands.hpp"
#include "tools/weir/terminal.hpp"

namespace weir {

void print(const app::ProfileRequest& request, const app::ProfileResult& result) {
  say("{:<28} {:>6} {:>11} {:>11} {:>11} {:>11} {:>8}\n", "layer", "batch", "F", "I", "W", "B",
      "spread");
  for (const LayerCost& layer : result.costs.layers) {
    for (const auto& [batch, t] : layer.by_batch) {
      say("{:<28} {:>6} {:>11} {:>11} {:>11} {:>11} {:>7.1f}%\n", layer.key.substr(0, 28), batch,
          format_duration(t.f), format_duration(t.i), format_duration(t.w), format_duration(t.b),
          t.spread * 100);
    }
  }
  say("{}\n{}\n", result.costs.origin, request.output->string());
}

}  // namespace weir
