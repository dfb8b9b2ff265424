// A network under a layout as PyTorch DTensors: each weight's placements for `distribute_tensor`,
// and a module that computes the network on a DeviceMesh (torch_layout.py).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plan/layout/network.hpp"
#include "tools/jobs/job/export.hpp"

namespace weir {

// Throws InputError, by the operation, where the network has what no placement says or what the
// script cannot compute: routes of experts, steps over time, kernels whose scale or mask is no word
// of the language. `file`: for complaints. Precondition: the layout is legal.
[[nodiscard]] ExportedJob export_dtensor(const layout::Network& network,
                                         const layout::NetworkLayout& layout,
                                         const std::string& file, const ExportOptions& options);

}  // namespace weir
