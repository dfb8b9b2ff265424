// A plan's forecast and its measured trace as a page has them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/page/plan_page.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "costmodel/table/plan_costs.hpp"
#include "plan/job/summary.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/app/jobs/import.hpp"
#include "tools/app/machine/machine.hpp"
#include "tools/app/shared/parallel_fields.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/app/shared/traced_plan.hpp"
#include "tools/report/timeline.hpp"
#include "traces/compare.hpp"

namespace weir::app {
namespace {

using Json = nlohmann::ordered_json;

Json costs_json(const CostTable& table) {
  Json json{{"stages", Json::array()},
            {"forward", Json::array()},
            {"backward", Json::array()},
            {"host", table.host_overhead.count()}};
  for (const StageCost& stage : table.stages) {
    json["stages"].push_back({{"F", stage.f.count()},
                              {"I", stage.i.count()},
                              {"W", stage.w.count()},
                              {"B", stage.b.count()},
                              {"R", stage.r.count()},
                              {"optimizer", stage.optimizer.count()},
                              {"reduce", stage.reduce.count()},
                              {"rebuild", stage.rebuild.count()}});
  }
  const auto messages = [](const std::vector<MessageCost>& costs) {
    Json all = Json::array();
    for (const MessageCost& cost : costs)
      all.push_back({cost.occupancy.count(), cost.latency.count()});
    return all;
  };
  json["forward"] = messages(table.forward_messages);
  json["backward"] = messages(table.backward_messages);
  return json;
}

Json lowering_json(const LoweringOptions& lowering, std::size_t stages) {
  Json json{{"slots", lowering.slots},
            {"recompute", lowering.recompute},
            {"keepLast", lowering.keep_last_microbatch},
            {"fused", lowering.placement == RecomputePlacement::fused},
            {"reduceAll", lowering.reduce_all},
            {"clips", lowering.clips},
            {"tied", Json::array()}};
  if (lowering.recompute.empty()) json["recompute"] = std::vector<bool>(stages, false);
  for (const auto& tie : lowering.tied) {
    Json holders = Json::array();
    for (const Stage stage : tie) holders.push_back(stage.value);
    json["tied"].push_back(std::move(holders));
  }
  return json;
}

// By rank, start and end of each compute operation in order, from the step's start.
Json times_json(const Program& program, const Trace& trace, std::int32_t step) {
  const auto spans = trace.of_step(step);
  const Nanoseconds begin = trace.steps[static_cast<std::size_t>(step)].start;
  Json ranks = Json::array();
  for (const Rank rank : program.ranks()) {
    Json row = Json::array();
    for (const OperationId id : program.compute_lane(rank).operations())
      row.push_back({(spans[id].start - begin).count(), (spans[id].end - begin).count()});
    ranks.push_back(std::move(row));
  }
  return ranks;
}

// By rank, [time, bytes] of what is held; null where the trace does not know.
Json memory_json(const Trace& trace, std::int32_t step) {
  const StepWindow& window = trace.steps[static_cast<std::size_t>(step)];
  std::vector<Json> ranks(static_cast<std::size_t>(trace.ranks), Json::array());
  bool any = false;
  for (const Counter& counter : trace.counters) {
    if (counter.name != "memory" || counter.unit != CounterUnit::bytes) continue;
    any = true;
    Json& row = ranks[static_cast<std::size_t>(counter.rank.value)];
    std::optional<std::int64_t> before;
    for (const Counter::Sample& sample : counter.samples) {
      if (sample.time > window.end) break;
      if (sample.time >= window.start) {
        if (row.empty() && before) row.push_back({0, *before});
        row.push_back({(sample.time - window.start).count(), sample.value});
      }
      before = sample.value;
    }
  }
  return any ? Json(std::move(ranks)) : Json();
}

Json measured_json(const PageRequest& r, const ResolvedPlan& plan, const Trace& predicted,
                   const Session& session) {
  const PlannedTrace measured = load_planned_trace(r.measured, session, &plan);
  const auto* file = std::get_if<std::filesystem::path>(&r.measured);
  const std::string name = file == nullptr ? "trace" : file->string();
  require_comparable(measured.trace, name);
  if (!same_plan(plan, measured.plan->loaded))
    throw InputError(name, "weir.info.plan", "is another plan than " + name_of(r.plan) + "'s");
  const Comparison c = weir::compare(plan.program, predicted, measured.trace);
  Json json{{"name", file == nullptr ? name : file->filename().string()},
            {"steps", measured.trace.steps.size()},
            {"step", to_nanoseconds(c.measured).count()},
            {"typical", c.typical_step},
            {"error", c.error ? Json(*c.error) : Json()},
            {"times", times_json(plan.program, measured.trace, c.typical_step)},
            {"memory", memory_json(measured.trace, c.typical_step)},
            {"waterfall", Json::array()}};
  for (const WaterfallPart& part : c.waterfall)
    json["waterfall"].push_back({part.cause, to_nanoseconds(part.difference).count()});
  return json;
}

}  // namespace

Json plan_for_page(const PageRequest& r, const Session& session) {
  const PlacedPlan placed = load(r.plan, session);
  const ResolvedPlan& plan = placed.loaded;
  if (!plan.lowering.skips.empty())
    throw InputError(name_of(r.plan), "skips",
                     "expected other than direct: a page has no messages past stages");
  if (plan.schedule.shape.shards() > 0) {
    throw InputError(name_of(r.plan), "schedule",
                     fmt::format("expected one that does not divide the vocabulary, not {}",
                                 plan.schedule.name));
  }
  const Cluster cluster = machine({.cluster = r.cluster,
                                   .stack = r.stack,
                                   .costs = r.costs,
                                   .job_stack = stack_of(plan.plan.job)},
                                  r.gpus, session);
  require_devices(plan.plan, cluster, r.cluster, r.gpus);
  const Costs costs = load(r.costs, plan.model, plan.plan, cluster);
  const ForecastResult forecast = weir::forecast(plan, costs, cluster);
  std::optional<Bytes> cap;
  if (!r.memory_limit.empty()) {
    cap = parse_memory(r.memory_limit, "--memory-limit");
  } else if (r.cluster) {
    cap = cluster.largest_memory();
  }
  const ScheduleShape& shape = plan.schedule.shape;
  const auto* file = std::get_if<std::filesystem::path>(&r.plan);
  Json json{{"plan", summary(plan.plan)},
            {"file", file == nullptr ? "" : file->filename().string()},
            {"device", cluster.device.name},
            {"stack", cluster.stack.name},
            {"basis", to_string(forecast.forecast.basis)},
            {"K", shape.ranks},
            {"v", shape.stages / shape.ranks},
            {"M", shape.microbatches},
            {"S", shape.segments},
            {"schedule", plan.schedule.name},
            {"csv", to_csv(plan.schedule)},
            {"place", Json::array()},
            {"step", to_nanoseconds(forecast.forecast.step_time).count()},
            {"overhead", to_nanoseconds(costs.anchored_step_overhead()).count()},
            {"interval", nullptr},
            {"cap", cap ? Json(cap->count()) : Json()},
            {"times", times_json(plan.program, forecast.trace, 0)},
            {"memory", memory_json(forecast.trace, 0)},
            {"notes", Json::array()},
            {"measured", nullptr}};
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    if (const std::string note = note_of_rank(forecast.trace, rank); !note.empty())
      json["notes"].push_back(fmt::format("rank {} {}", rank, note));
  }
  for (const Stage stage : shape.all_stages()) json["place"].push_back(shape.rank_of(stage).value);
  if (const auto& interval = forecast.forecast.interval)
    json["interval"] = {to_nanoseconds(interval->low).count(),
                        to_nanoseconds(interval->high).count()};
  json.update(costs_json(cost_table(plan, costs, cluster).table));
  json.update(lowering_json(plan.lowering, static_cast<std::size_t>(shape.total_stages())));
  const auto* trace = std::get_if<std::filesystem::path>(&r.measured);
  if (trace == nullptr || !trace->empty())
    json["measured"] = measured_json(r, plan, forecast.trace, session);
  return json;
}

}  // namespace weir::app
