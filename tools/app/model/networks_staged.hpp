// Layouts of a network inside each stage of a pipeline, whatever they are: forecast for the layouts
// that were asked for, or K and layouts searched together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/layouts/staged_layout.hpp"
#include "tools/app/shared/field.hpp"

namespace weir::app {

struct StagesRequest {
  std::vector<int> stages;  // each K; none: no pipeline
  int microbatches = 1;
  std::string schedule = "1f1b";
};
[[nodiscard]] Fields fields(StagesRequest& request);

struct StagedRow {
  int stages = 1;
  layout::NetworkLayout layout;
  StagedLayout forecast;
};

// Each layout at each K. Throws UsageError where the network cannot be cut so, or the cluster has
// fewer devices.
[[nodiscard]] std::vector<StagedRow> staged_rows(const layout::Network& network,
                                                 const std::vector<layout::NetworkLayout>& layouts,
                                                 const StagesRequest& request,
                                                 const NetworkJob& job, const Cluster& cluster);
// Of the layouts of the front of each K, on so many devices together, those that no other beats in
// time and memory both, fastest first.
[[nodiscard]] std::vector<StagedRow> staged_front(const layout::Network& network, int devices,
                                                  const StagesRequest& request,
                                                  const NetworkJob& job, const Cluster& cluster);
[[nodiscard]] nlohmann::ordered_json to_json(const StagedRow& row, const layout::Network& network,
                                             const Cluster& cluster);

}  // namespace weir::app
