// Writes and reads what costs were anchored to.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/anchor_json.hpp"

#include <algorithm>
#include <utility>

namespace weir {
namespace {

constexpr double kLeastFactor = 1e-6, kMostFactor = 1e6;
constexpr double kMostResidual = 100;

Json run_json(const AnchorRun& run) {
  return {{"plan", run.plan},
          {"figure", run.figure},
          {"step_time_s", run.step_time.count()},
          {"residual", run.residual},
          {"memory_bytes", run.memory ? Json(run.memory->count()) : Json()},
          {"memory_residual", run.memory_residual ? Json(*run.memory_residual) : Json()},
          {"job", run.words.job},
          {"choices", run.words.choices}};
}

AnchorRun parse_run(JsonObject& object) {
  AnchorRun run;
  run.plan = object.text("plan");
  run.figure = object.text("figure");
  run.step_time = Seconds(object.number("step_time_s", 0, 1e9));
  run.residual = object.number("residual", -kMostResidual, kMostResidual);
  if (!object.at("memory_bytes").is_null()) run.memory = Bytes(object.integer("memory_bytes", 1));
  if (!object.at("memory_residual").is_null())
    run.memory_residual = object.number("memory_residual", -kMostResidual, kMostResidual);
  if (object.has("job")) run.words = {object.texts("job"), object.texts("choices")};
  object.finish();
  return run;
}

AnchorFactors parse_factors(JsonObject object) {
  const auto factor = [&](std::string_view key) {
    return object.number(key, kLeastFactor, kMostFactor);
  };
  const AnchorFactors factors{factor("compute"), factor("messages"), factor("step"),
                              factor("memory")};
  object.finish();
  return factors;
}

}  // namespace

PlanDistance nearest(const std::vector<AnchorRun>& runs, const LayoutWords& plan) {
  PlanDistance least = PlanDistance::other_job;
  for (const AnchorRun& run : runs) least = std::min(least, distance(run.words, plan));
  return least;
}

Json to_json(const CostAnchor& anchor) {
  const AnchorFactors& f = anchor.factors;
  Json json{
      {"cluster", anchor.cluster},
      {"device", anchor.device},
      {"stack", anchor.stack},
      {"stack_named", anchor.stack_named},
      {"factors",
       {{"compute", f.compute}, {"messages", f.messages}, {"step", f.step}, {"memory", f.memory}}},
      {"runs", Json::array()}};
  for (const AnchorRun& run : anchor.runs) json["runs"].push_back(run_json(run));
  return json;
}

CostAnchor parse_anchor(JsonObject object) {
  CostAnchor anchor;
  anchor.cluster = object.text("cluster");
  anchor.device = object.text("device");
  anchor.stack = object.text("stack");
  anchor.stack_named = object.boolean_or("stack_named", true);
  anchor.factors = parse_factors(object.object("factors"));
  for (JsonObject& run : object.objects("runs")) anchor.runs.push_back(parse_run(run));
  if (anchor.runs.empty()) object.fail("runs", "expected at least one measured run");
  object.finish();
  return anchor;
}

}  // namespace weir
