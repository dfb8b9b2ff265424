// Networks under layouts as JSON: weir.network_costs/1.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "plan/words/indexed.hpp"
#include "tools/app/model/networks.hpp"

namespace weir::app {
namespace {

using Json = nlohmann::ordered_json;

Json exchange_json(const NetworksResult& result, const layout::NetworkLayout& layout,
                   const layout::NetworkLayer& layer, const layout::Exchange& exchange) {
  const layout::NetworkTensor& tensor = layer.tensors[at(exchange.tensor)];
  Json over = Json::array();
  // Axes are a set of bits, one a mesh dimension.
  for (std::size_t m = 0; m < layout.mesh.size(); ++m) {
    if ((exchange.axes >> m & 1U) != 0) over.push_back(layout.mesh[m].name);
  }
  Json json{{"pass", to_string(exchange.pass)},
            {"tensor", tensor.name},
            {"gradient", exchange.gradient},
            {"collective", to_string(exchange.collective)},
            {"over", over},
            {"devices", members(layout, exchange.axes)},
            {"bytes", exchanged_bytes(exchange, result.job.dtype).count()}};
  json["time_s"] =
      result.cluster
          ? Json(exchange_time(exchange, members(layout, exchange.axes), result.job.dtype,
                               axes_link(layout, exchange.axes, *result.cluster))
                     .count())
          : Json();
  return json;
}

Json cost_json(const NetworkCost& cost, const Cluster& cluster) {
  return {
      {"step_time_s", cost.time().count()},    {"products_s", cost.products.count()},
      {"exchanges_s", cost.exchanges.count()}, {"reductions_s", cost.reductions.count()},
      {"memory_bytes", cost.memory().count()}, {"state_bytes", cost.state.count()},
      {"kept_bytes", cost.kept.count()},       {"fits", cost.memory() <= cluster.device.memory}};
}

Json layout_json(const NetworksResult& result, const layout::NetworkLayout& layout) {
  Json mesh = Json::array();
  for (const layout::MeshDimension& m : layout.mesh)
    mesh.push_back({{"name", m.name}, {"symbol", m.symbol}, {"size", m.size}});
  Json json{{"name", layout.name},
            {"mesh", mesh},
            {"rules", rules_text(result.network, layout)},
            {"layers", Json::array()}};
  for (std::size_t l = 0; l < result.network.layers.size(); ++l) {
    const layout::NetworkLayer& layer = result.network.layers[l];
    const layout::LayerShare share = layer_share(result.network, layout, l);
    Json exchanges = Json::array();
    for (const layout::Exchange& exchange : share.exchanges)
      exchanges.push_back(exchange_json(result, layout, layer, exchange));
    double kept = 0, statistics = 0;
    for (const layout::Kept& one : share.kept) (one.statistics ? statistics : kept) += one.elements;
    json["layers"].push_back(
        {{"name", layer.name},
         {"repeat", layer.repeat},
         {"multiply_adds_forward", share.multiply_adds[0]},
         {"multiply_adds_backward", share.multiply_adds[1] + share.multiply_adds[2]},
         {"weights", share.weights},
         {"kept", kept},
         {"kept_statistics", statistics},
         {"exchanges", exchanges}});
  }
  // Without a cluster there are bytes but no times.
  json["cost"] = result.cluster
                     ? cost_json(network_cost(result.network, layout, result.job, *result.cluster),
                                 *result.cluster)
                     : Json();
  return json;
}

}  // namespace

nlohmann::ordered_json to_json(const NetworksResult& result) {
  Json json{{"schema", "weir.network_costs/1"},
            {"name", result.network.name},
            {"dtype", to_string(result.job.dtype)},
            {"cluster", result.cluster ? Json(result.cluster->name) : Json()},
            {"dimensions", Json::array()}};
  for (const layout::Dimension& d : result.network.dimensions)
    json["dimensions"].push_back({{"name", d.name}, {"symbol", d.symbol}, {"size", d.size}});
  json["layouts"] = Json::array();
  for (const layout::NetworkLayout& layout : result.layouts)
    json["layouts"].push_back(layout_json(result, layout));
  if (result.found) {
    const FoundLayout* best = result.found->best(result.cluster->device.memory);
    json["search"] = {{"proof", "optimal"},
                      {"meshes", result.found->meshes},
                      {"examined", result.found->examined},
                      {"best", best == nullptr ? Json() : Json(best->layout.name)}};
  }
  return json;
}

}  // namespace weir::app
