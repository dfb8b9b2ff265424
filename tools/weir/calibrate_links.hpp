// `weir calibrate --nccl | --topo`: links from what other tools measured and print.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "tools/weir/commands.hpp"

namespace weir {

struct LinkCalibration {
  std::vector<std::filesystem::path> nccl;              // nccl-tests, text or JSON
  std::optional<std::filesystem::path> topology;        // nvidia-smi topo -m
  std::optional<std::filesystem::path> cluster, costs;  // which of them to refine
  std::filesystem::path output;
};

// Writes the refined cluster or costs and prints every fit, which of them was taken, and what stays
// as it was.
void calibrate_links(const LinkCalibration& request, const GlobalOptions& global);

}  // namespace weir
