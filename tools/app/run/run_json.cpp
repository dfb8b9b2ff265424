// weir.run/1.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run/run_json.hpp"

#include <nlohmann/json.hpp>

#include "tools/app/machine/host.hpp"
#include "tools/app/run/kernels_json.hpp"
#include "tools/app/shared/plan_fields.hpp"

namespace weir::app {
namespace {

// What the driver says of each rank's share of a GPU.
void add_devices(nlohmann::ordered_json& json, const std::vector<DeviceUse>& ranks) {
  json["sharing"] = ranks.front().sharing;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const DeviceUse& use = ranks[rank];
    nlohmann::ordered_json& row = json["ranks"][rank];
    row["device"] = use.device;
    row["multiprocessors"] = use.multiprocessors;
    row["pool_peak_bytes"] = use.pool_peak.count();
    row["pool_reserved_bytes"] = use.pool_reserved.count();
    if (!use.attention.empty()) row["fused_attention"] = use.attention;
    if (!use.products.empty()) row["products"] = use.products;
  }
  json["devices"] = nlohmann::ordered_json::array();
  for (const Bytes outside : outside_the_pools(ranks)) {
    json["devices"].push_back(
        {{"device", json["devices"].size()}, {"outside_pools_bytes", outside.count()}});
  }
}

}  // namespace

nlohmann::ordered_json to_json(const RunResult& result) {
  // One file a run: the leader's.
  if (!result.leads) return nullptr;
  const weir::RunResult& run = result.run;
  nlohmann::ordered_json json{{"schema", "weir.run/1"},
                              {"backend", result.backend},
                              {"first_step", run.first_step},
                              {"steps", nlohmann::ordered_json::array()}};
  const bool trains = parse_backend(result.backend) != BackendKind::synthetic;
  for (const StepResult& step : run.steps) {
    json["steps"].push_back(
        {{"loss", trains ? nlohmann::ordered_json(step.loss) : nlohmann::ordered_json(nullptr)},
         {"time_s", step.time.count()},
         {"allocations", step.allocations}});
    if (step.gradient_norm) json["steps"].back()["gradient_norm"] = *step.gradient_norm;
  }
  if (run.stopped_by != 0) json["stopped"] = true;
  if (run.resumed) json["resumed"] = run.resumed->string();
  if (!result.losses_before.empty()) json["losses_before"] = result.losses_before;
  for (const CheckpointWritten& written : run.checkpoints) {
    json["checkpoints"].push_back({{"step", written.step},
                                   {"folder", written.folder.string()},
                                   {"time_s", written.time.count()}});
  }
  if (run.evaluation) {
    json["evaluation"] = {{"loss", run.evaluation->loss},
                          {"samples", run.evaluation->samples},
                          {"tokens", run.evaluation->tokens}};
  }
  json["step_time_s"] = run.step_time.count();
  json["parameters_sha256"] = nullptr;
  if (!run.parameters_sha256.empty()) json["parameters_sha256"] = run.parameters_sha256;
  json["oversubscribed"] = run.oversubscribed;
  json["disturbance"] = weir::to_json(result.disturbance);
  // Only where one thread launches for devices.
  if (run.host_per_action) json["host_s_per_action"] = run.host_per_action->count();
  if (run.host_per_action) json["graph"] = run.graph;
  if (run.graph_refused) json["graph_refused"] = *run.graph_refused;
  json["ranks"] = nlohmann::ordered_json::array();
  for (int rank = 0; rank < run.trace.ranks; ++rank) {
    nlohmann::ordered_json peak = nullptr;
    if (!run.peak_memory.empty()) peak = run.peak_memory[static_cast<std::size_t>(rank)].count();
    json["ranks"].push_back({{"rank", rank}, {"peak_memory_bytes", peak}});
  }
  if (!run.devices.empty()) add_devices(json, run.devices);
  if (run.kernels) json["kernels"] = kernels_json(run.trace, *run.kernels);
  return json;
}

}  // namespace weir::app
