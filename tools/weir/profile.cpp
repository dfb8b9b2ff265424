// What people read of `weir profile`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/profile/profile.hpp"

#include <fmt/core.h>

#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {

void print(Printout& out, const app::ProfileRequest& request, const app::ProfileResult& result) {
  constexpr std::size_t kKey = 40;  // a layer's sizes are long; the file has them whole
  Table table{{left("layer"), {"batch"}, {"F"}, {"I"}, {"W"}, {"B"}, {"spread"}}, {}, {}};
  for (const LayerCost& layer : result.costs.layers) {
    for (const auto& [batch, t] : layer.by_batch) {
      table.rows.push_back({cut(layer.key, kKey), std::to_string(batch), format_duration(t.f),
                            format_duration(t.i), format_duration(t.w), format_duration(t.b),
                            fmt::format("{:.1f}%", t.spread * 100)});
    }
  }
  out.show(table);
  out.say("{}\n{}\n", result.costs.origin, request.output->string());
}

}  // namespace weir
