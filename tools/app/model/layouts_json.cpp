// Layouts as JSON: weir.layout_costs/1.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "plan/text/strict_json.hpp"
#include "tools/app/model/layouts.hpp"

namespace weir::app {
namespace {

using layout::Polynomial;
using Json = nlohmann::ordered_json;

Json formula(const Polynomial& polynomial, const layout::Symbols& symbols) {
  return {{"formula", to_text(polynomial, symbols)}, {"value", value(polynomial, symbols)}};
}

// With its constants, and as the table prints it.
Json total(const Polynomial& polynomial, const layout::Symbols& symbols) {
  Json json = formula(polynomial, symbols);
  json["without_constants"] = formula(polynomial.without_constants(), symbols);
  return json;
}

Json mesh_json(const layout::Layout& layout) {
  Json mesh = Json::array();
  for (const layout::MeshDimension& dimension : layout.mesh) {
    mesh.push_back(
        {{"name", dimension.name}, {"symbol", dimension.symbol}, {"size", dimension.size}});
  }
  return mesh;
}

Json layout_json(const layout::Program& program, const layout::Layout& layout) {
  const LayoutCost cost = layout_cost(program, layout);
  Json json{
      {"name", layout.name}, {"rules", rules_text(program, layout)}, {"mesh", mesh_json(layout)}};
  json["tensors"] = Json::array();
  for (const layout::NamedTensor& tensor : program.tensors) {
    json["tensors"].push_back(
        {{"tensor", to_text(program, tensor)},
         {"local_shape", local_shape(program, layout, tensor)},
         {"memory",
          formula(Polynomial(local_size(program, layout, tensor.dimensions)), cost.symbols)}});
  }
  json["einsums"] = Json::array();
  for (std::size_t e = 0; e < program.einsums.size(); ++e) {
    Json over = Json::array();
    for (const int m : cost.einsums[e].all_reduced_over)
      over.push_back(layout.mesh[static_cast<std::size_t>(m)].name);
    json["einsums"].push_back(
        {{"einsum", to_text(program, program.einsums[e])},
         {"pass", static_cast<int>(e) < program.forward ? "forward" : "backward"},
         {"computation", formula(Polynomial(cost.einsums[e].computation), cost.symbols)},
         {"all_reduced_over", over},
         {"communication", formula(cost.einsums[e].communication, cost.symbols)},
         {"memory", formula(Polynomial(cost.einsums[e].output), cost.symbols)}});
  }
  json["computation"] = total(cost.computation, cost.symbols);
  json["communication"] = total(cost.communication, cost.symbols);
  json["memory"] = total(cost.memory, cost.symbols);
  const auto ratio = communication_per_computation(cost);
  json["communication_per_computation"] = ratio ? formula(*ratio, cost.symbols) : Json();
  json["memory_bytes"] = layout_numbers(program, layout).memory.count();
  return json;
}

Json time_json(const LayoutTime& time) {
  return {{"compute_s", time.products.count()},       {"elementwise_s", time.elementwise.count()},
          {"all_reduce_s", time.all_reduces.count()}, {"work_s", time.work().count()},
          {"waiting_s", time.waiting.count()},        {"step_time_s", time.step().count()}};
}

Json run_json(const layout::Program& program, const LayoutRunRequest& request,
              const LayoutRunResult& result) {
  Json json{{"workers", request.workers},
            {"rounds", request.rounds},
            {"seed", request.seed},
            {"oversubscribed", result.oversubscribed},
            {"flops_per_s_per_core", result.rates.products.count()},
            {"elementwise_per_s_per_core", result.rates.elementwise_per_s},
            {"preemptions_per_step", result.preemptions},
            {"all_reduce_wait_s", result.rates.all_reduce_wait.count()},
            {"all_reduce_latency_s", result.rates.all_reduce_latency.count()},
            {"all_reduce_bytes_per_s", result.rates.all_reduce_bandwidth.count()},
            {"layouts", Json::array()}};
  for (const LayoutRunRow& row : result.rows) {
    Json one{{"name", row.layout.name},
             {"rules", rules_text(program, row.layout)},
             {"mesh", mesh_json(row.layout)}};
    one["measured"] = time_json(row.measured);
    // Rates of a core each say nothing where workers share one.
    one["predicted"] = result.oversubscribed ? Json() : time_json(row.predicted);
    one["spread"] = or_null(row.spread);
    one["multiply_adds"] = row.counted.multiply_adds;
    one["all_reduced_elements"] = row.counted.reduced_elements;
    one["exchanged_elements"] = row.counted.exchanged_elements;
    one["memory_bytes"] = row.counted.memory.count();
    one["difference"] = row.difference;
    json["layouts"].push_back(std::move(one));
  }
  return json;
}

}  // namespace

Json to_json(const LayoutsResult& layouts) {
  const auto& [file, request, result] = layouts;
  Json json{{"schema", "weir.layout_costs/1"}, {"name", file.name}, {"dimensions", Json::array()}};
  for (const layout::Dimension& dimension : file.program.dimensions) {
    json["dimensions"].push_back(
        {{"name", dimension.name}, {"symbol", dimension.symbol}, {"size", dimension.size}});
  }
  json["layouts"] = Json::array();
  for (const layout::Layout& layout : file.layouts)
    json["layouts"].push_back(layout_json(file.program, layout));
  if (result) json["run"] = run_json(file.program, request, *result);
  return json;
}

}  // namespace weir::app
