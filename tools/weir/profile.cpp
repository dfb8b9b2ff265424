// What people read of `weir profile`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/profile/profile.hpp"

#include <fmt/core.h>

#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {

void print(Printout& out, const app::ProfileRequest& request, const app::ProfileResult& result) {
  constexpr std::size_t kKey = 40;  // a layer's sizes are long; programs get them whole
  Table table{{left("layer"), {"batch"}, {"F"}, {"I"}, {"W"}, {"B"}, {"spread"}}, {}, {}};
  for (const LayerCost& layer : result.costs.layers) {
    for (const auto& [batch, t] : layer.by_batch) {
      table.rows.push_back({Cell(cut(layer.key, kKey), layer.key, ""), batch, t.f, t.i, t.w, t.b,
                            percent(t.spread)});
    }
  }
  out.show(table);
  out.say("{}\n{}\n", result.costs.origin, request.output->string());
}

}  // namespace weir
