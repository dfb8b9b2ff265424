// What people read of `weir layout`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/model/layout.hpp"

#include "tools/weir/commands.hpp"
#include "tools/weir/print/layout_text.hpp"
#include "tools/weir/print/network_text.hpp"

namespace weir {

void print(Printout& out, const app::LayoutRequest&, const app::LayoutResult& result) {
  // One process speaks for all.
  if (!result.leads) return;
  if (result.networks) return print_networks(out, *result.networks);
  const auto& [file, request, run] = *result.layouts;
  print_layouts(out, file);
  if (run) print_layout_run(out, file, request, *run);
}

}  // namespace weir
