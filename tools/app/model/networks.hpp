// What the network of a model, or of a layout file, costs under its layouts; or the layouts found
// to be best.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/layers/network_math.hpp"
#include "plan/layout/network.hpp"
#include "sim/layouts/layout_search.hpp"
#include "sim/layouts/live_search.hpp"
#include "sim/layouts/mesh_shapes.hpp"
#include "tools/app/model/networks_run.hpp"
#include "tools/app/model/networks_staged.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/app/shared/plan_fields.hpp"

namespace weir::app {

struct NetworksRequest {
  std::string mesh, rules;
  std::optional<int> devices;  // to search on; with rules: the meshes that these are priced on
  std::optional<std::filesystem::path> cluster;
  bool least_live = false;                   // with devices and no rules: that layout, too
  StagesRequest pipeline;                    // of stages with these layouts inside
  std::optional<Cluster> measured;           // instead of `cluster`: what was measured here
  std::optional<std::filesystem::path> out;  // the program and its layouts, weir.layout/1
  [[nodiscard]] bool asked() const {
    return !mesh.empty() || !rules.empty() || devices || out || !pipeline.stages.empty();
  }
};
[[nodiscard]] Fields fields(NetworksRequest& request);

struct NetworksResult {
  layout::Network network;
  std::vector<layout::NetworkLayout> layouts;
  NetworkJob job;
  std::optional<Cluster> cluster;                   // then there are times
  std::optional<FoundLayouts> found;                // then `layouts` are its front's
  std::optional<LeastLive> least_live;              // where that was asked for
  std::optional<std::vector<ShapedLayout>> shapes;  // then `layouts` are the legal ones of them
  std::optional<NetworksRunResult> run;             // of `layouts`
  std::vector<StagedRow> staged;                    // of each K and `layouts`; none: no pipeline
};

// A model's network, `batch` sequences a micro-batch on all devices together. Throws UsageError for
// options that do not go together, InputError where a layer has no words in a network or a layout
// is illegal.
[[nodiscard]] NetworksResult networks(const NetworksRequest& request, PlanOptions options,
                                      const Model& model, int batch, std::uint64_t seed,
                                      const Session& session);
// Of a layout file that has a network: its layouts, or those that the request has in their place.
// Without a number format it is that which the cluster's devices train in.
[[nodiscard]] NetworksResult networks(const NetworksRequest& request,
                                      const layout::Network& network,
                                      const std::vector<layout::NetworkLayout>& layouts,
                                      std::optional<Dtype> dtype, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const NetworksResult& result);  // weir.network_costs/1

}  // namespace weir::app
