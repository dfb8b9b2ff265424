// Networks under layouts as JSON: weir.network_costs/1.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/text/strict_json.hpp"
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
            {"times", exchange.times},
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

Json mesh_json(const std::vector<layout::MeshDimension>& dimensions) {
  Json mesh = Json::array();
  for (const layout::MeshDimension& m : dimensions)
    mesh.push_back({{"name", m.name}, {"symbol", m.symbol}, {"size", m.size}});
  return mesh;
}

// What a device has of each tensor.
Json tensors_json(const layout::Network& network, const layout::NetworkLayout& layout,
                  const layout::NetworkLayer& layer, const layout::LayerShare& share) {
  Json tensors = Json::array();
  for (std::size_t t = 0; t < layer.tensors.size(); ++t) {
    const layout::NetworkTensor& tensor = layer.tensors[t];
    const auto made =
        std::ranges::find(layer.operations, static_cast<int>(t), &layout::Operation::output);
    const auto kept = std::ranges::find_if(share.kept, [t](const layout::Kept& one) {
      return one.tensor == static_cast<int>(t) && !one.statistics;
    });
    Json shape = Json::array();
    for (const int d : tensor.dimensions)
      shape.push_back(network.dimensions[at(d)].size / members(layout, layout.over[at(d)]));
    tensors.push_back(
        {{"tensor", to_text(network, tensor)},
         {"made_by",
          made == layer.operations.end() ? Json() : Json(to_text(network, layer, *made))},
         {"local_shape", shape},
         {"formula", block_text(network, layout, tensor.dimensions)},
         {"elements", block_elements(network, layout, tensor.dimensions)},
         {"times", times_of(network, layer, static_cast<int>(t))},
         {"kept_until", kept == share.kept.end() ? Json() : Json(kept->until_w ? "W" : "I")}});
  }
  return tensors;
}

Json layout_json(const NetworksResult& result, const layout::NetworkLayout& layout) {
  Json json{{"name", layout.name},
            {"mesh", mesh_json(layout.mesh)},
            {"rules", rules_text(result.network, layout)},
            {"layers", Json::array()}};
  for (std::size_t l = 0; l < result.network.layers.size(); ++l) {
    const layout::NetworkLayer& layer = result.network.layers[l];
    const layout::LayerShare share = layer_share(result.network, layout, l);
    Json exchanges = Json::array();
    for (const layout::Exchange& exchange : share.exchanges)
      exchanges.push_back(exchange_json(result, layout, layer, exchange));
    double kept = 0, statistics = 0;
    for (const layout::Kept& one : share.kept)
      (one.statistics ? statistics : kept) += one.elements * one.copies(1);
    json["layers"].push_back(
        {{"name", layer.name},
         {"repeat", layer.repeat},
         {"reads", sources_of(result.network, layer)},
         {"multiply_adds_forward", share.multiply_adds[0]},
         {"multiply_adds_backward", share.multiply_adds[1] + share.multiply_adds[2]},
         {"weights", share.weights},
         {"kept", kept},
         {"kept_statistics", statistics},
         {"tensors", tensors_json(result.network, layout, layer, share)},
         {"exchanges", exchanges}});
  }
  // Without a cluster there are bytes but no times.
  json["cost"] = result.cluster
                     ? cost_json(network_cost(result.network, layout, result.job, *result.cluster),
                                 *result.cluster)
                     : Json();
  return json;
}

// The fastest layout of each mesh that fits; null: none does.
Json by_mesh(const NetworksResult& result) {
  Json meshes = Json::array();
  for (const MeshFront& one : result.found->by_mesh) {
    const FoundLayout* best = one.best(result.cluster->device.memory);
    meshes.push_back(
        {{"mesh", mesh_json(one.mesh)},
         {"rules", best == nullptr ? Json() : Json(rules_text(result.network, best->layout))},
         {"cost", best == nullptr ? Json() : cost_json(best->cost, *result.cluster)}});
  }
  return meshes;
}

Json shapes_json(const NetworksResult& result) {
  Json shapes = Json::array();
  for (const ShapedLayout& one : *result.shapes) {
    shapes.push_back({{"mesh", mesh_json(one.layout.mesh)},
                      {"illegal", or_null(one.why)},
                      {"cost", one.why ? Json() : cost_json(one.cost, *result.cluster)}});
  }
  return shapes;
}

Json run_json(const NetworksResult& result) {
  const NetworksRunResult& run = *result.run;
  const Cluster& machine = *result.cluster;
  Json json{{"workers", run.workers},
            {"processes", run.processes.empty() ? Json(nullptr) : Json(run.processes)},
            {"rounds", run.rounds},
            {"seed", run.seed},
            {"oversubscribed", run.oversubscribed},
            {"flops_per_s_per_core", machine.device.peak_fp32.count()},
            {"latency_s", machine.intra.latency.count()},
            {"bytes_per_s", machine.intra.bandwidth.count()},
            {"pairs", run.pairs},
            {"pairs_right", run.pairs_right},
            {"layouts", Json::array()}};
  for (const NetworkRunRow& row : run.rows) {
    json["layouts"].push_back({{"name", row.layout.name},
                               {"mesh", mesh_json(row.layout.mesh)},
                               {"rules", rules_text(result.network, row.layout)},
                               {"predicted_s", row.predicted.time().count()},
                               {"priced_s", row.priced().count()},
                               {"spread", or_null(row.spread)},
                               {"products_s", row.products.count()},
                               {"exchanges_s", row.exchanges.count()},
                               {"elementwise_s", row.elementwise.count()},
                               {"step_time_s", row.step.count()},
                               {"multiply_adds", row.multiply_adds},
                               {"exchanged_elements", row.exchanged_elements},
                               {"derived_elements", row.derived_elements},
                               {"difference_in_order", row.in_order},
                               {"difference_reordered", row.reordered}});
  }
  return json;
}

// What a search places: without `shard` among them it has compared no layout of ZeRO's third stage.
Json searched_rules(const layout::Network& network) {
  Json names = Json::array();
  for (const layout::Dimension& dimension : network.dimensions) names.push_back(dimension.name);
  for (const char* kept : {"optimizer", "gradients"}) names.push_back(kept);
  return names;
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
                      {"rules", searched_rules(result.network)},
                      {"meshes", result.found->meshes},
                      {"examined", result.found->examined},
                      {"best", best == nullptr ? Json() : Json(best->layout.name)},
                      {"by_mesh", by_mesh(result)}};
  }
  if (result.least_live) {
    const LeastLive& least = *result.least_live;
    json["least_live"] = {{"mesh", mesh_text(least.layout)},
                          {"rules", rules_text(result.network, least.layout)},
                          {"bytes", least.bytes.count()},
                          {"examined", least.examined}};
  }
  if (result.run) json["run"] = run_json(result);
  if (result.shapes) json["shapes"] = shapes_json(result);
  if (!result.staged.empty()) {
    Json rows = Json::array();
    for (const StagedRow& row : result.staged)
      rows.push_back(to_json(row, result.network, *result.cluster));
    json["pipelines"] = rows;
  }
  return json;
}

}  // namespace weir::app
