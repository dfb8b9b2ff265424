// How `weir model --layout` prints, for people and as JSON ("weir.layout_costs/1").
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "tools/weir/layout_run.hpp"

namespace weir {

void print_layouts(const layout::LayoutFile& file);
void print_layout_run(const layout::LayoutFile& file, const LayoutRunRequest& request,
                      const LayoutRunResult& result);
void print_layouts_json(const layout::LayoutFile& file, const LayoutRunRequest& request,
                        const std::optional<LayoutRunResult>& result);

}  // namespace weir
