// How `weir model --layout` prints for people.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/app/model/layout_run.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {

void print_layouts(Printout& out, const layout::LayoutFile& file);
void print_layout_run(Printout& out, const layout::LayoutFile& file,
                      const LayoutRunRequest& request, const LayoutRunResult& result);

}  // namespace weir
