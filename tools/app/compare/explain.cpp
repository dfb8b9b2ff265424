// Explains a plan's forecast, and writes the changed plans.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/compare/explain.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "costmodel/table/cost_breakdown.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/explain/explain_json.hpp"
#include "sim/forecast/training_cost.hpp"
#include "tools/app/compare/measured_figure.hpp"
#include "tools/app/jobs/import.hpp"
#include "tools/app/machine/unnamed_software.hpp"
#include "tools/app/shared/parallel_fields.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/app/shared/training_tokens.hpp"

namespace weir::app {
namespace {

void require_explicable(const ResolvedPlan& loaded, const std::string& file) {
  const std::int64_t stages = loaded.schedule.shape.total_stages();
  const std::int64_t most = most_explained(loaded);
  if (loaded.plan.microbatches <= most) return;
  throw InputError(
      file, "microbatches",
      fmt::format("{} on {} stages: at most {} of them can be explained, by a forecast of each "
                  "change; simulate forecasts more",
                  loaded.plan.microbatches, stages, most));
}

Seconds measured_step(const ExplainRequest& r, const ResolvedPlan& plan, const Forecast& forecast,
                      const Session& session) {
  MeasuredFigure figure = parse_plain_figure(r.measured, "--measured");
  if (figure.log) require_same_job(*figure.log, plan, "the plan");
  if (const auto counted = count_whole(figure, plan)) session.note(*counted);
  const auto time = step_time_of(figure, forecast, forecast.devices);
  if (time) return *time;
  throw UsageError(
      fmt::format("--measured {}: the plan has no such rate; give its step time", r.measured));
}

// Each changed plan that can be, as what-if-1.json, ... by its place in the list; beside it the
// cluster, where that is what changes.
void write_plans(const ExplainResult& result, const std::filesystem::path& from,
                 const std::filesystem::path& folder, const Session& session) {
  std::filesystem::create_directories(folder);
  for (std::size_t i = 0; i < result.what_if.size(); ++i) {
    const Change& change = result.what_if[i].change;
    if (!change.refused.empty()) continue;
    const auto file = folder / fmt::format("what-if-{}.json", i + 1);
    save_plan(rebased(change.plan, from, folder), session.output(file));
    if (!change.cluster) continue;
    const auto cluster = folder / fmt::format("what-if-{}.cluster.json", i + 1);
    write_file_atomically(session.output(cluster), weir::to_json(*change.cluster));
  }
}

}  // namespace

Fields fields(ExplainRequest& r) {
  return {
      {"plan", &r.plan, "Plan file", {.required = true}},
      {"--costs", &r.costs, "Costs file (default: built in)"},
      {"--cluster", &r.cluster, "Cluster file or name (default: this machine)"},
      stack_field(r.stack),
      gpus_field(r.gpus),
      any_schedule_field(r.any_schedule),
      {"--memory-limit", &r.memory_limit, "Memory of a device, as \"80 GiB\""},
      train_tokens_field(r.train_tokens),
      {"--measured", &r.measured,
       "What the plan's step really takes, as 22.3s, 296.5TFLOPs a device or 380ktok/s, or its "
       "log or trace: which causes could make up the difference"},
      {"--plans", &r.plans, "Write each changed plan into this folder", {.writes = Writes::folder}},
      {"-o,--output", &r.output, "Write weir.explanation/1 JSON", {.writes = Writes::file}}};
}

ExplainResult explain(const ExplainRequest& r, const Session& session) {
  const PlacedPlan plan = load(r.plan, session);
  const ResolvedPlan& loaded = plan.loaded;
  require_explicable(loaded, name_of(r.plan));
  require_tokens(r.train_tokens, loaded.plan);
  const MachineChoice choice{r.cluster, r.stack, r.costs, r.any_schedule,
                             stack_of(loaded.plan.job)};
  const Cluster cluster = machine(choice, r.gpus, session);
  require_devices(loaded.plan, cluster, r.cluster, r.gpus);
  Costs costs = costs_of_changes(r.costs, loaded, cluster);
  const LayerCosts known(loaded, costs, cluster.stack);
  const CostBreakdown breakdown = cost_breakdown(loaded, known, cluster);
  ForecastResult result = forecast(loaded, known, cluster);
  Forecast& f = result.forecast;
  // Software that nobody named makes the interval wider.
  widen_for_unnamed(f, loaded, cluster);
  f.training_tokens = r.train_tokens;
  if (!r.memory_limit.empty()) {
    f.memory_limit = parse_memory(r.memory_limit, "--memory-limit");
  } else if (r.cluster) {
    f.memory_limit = cluster.largest_memory();
  }
  std::vector<Change> all = all_changes(r.costs, loaded, cluster, costs);
  ExplainResult why{.plan = loaded.plan,
                    .waterfall = waterfall(loaded, breakdown, result),
                    .critical_path = critical_path(loaded.program, result.trace),
                    .what_if = what_if(loaded, std::move(all), costs, cluster, f),
                    .measured = r.measured};
  // Changes that the stack cannot run stay in the list, marked.
  mark_beyond(why.what_if, loaded.plan, abilities_for(abilities(choice, cluster), loaded.model));
  if (!r.measured.empty()) {
    const Seconds measured = measured_step(r, loaded, f, session);
    why.gap = explain_gap(loaded, breakdown, costs, cluster, f, measured);
    // Measured costs have the run's own precision: nothing to mistake.
    if (costs.basis == Basis::builtin)
      why.mistaken = mistaken_dtype(loaded, cluster, f.step_time, measured);
  }
  why.forecast = std::move(f);
  if (r.plans) write_plans(why, plan.folder, *r.plans, session);
  if (r.output) write_file_atomically(session.output(*r.output), to_json(why).dump(2) + "\n");
  return why;
}

nlohmann::ordered_json to_json(const ExplainResult& result) {
  using Json = nlohmann::ordered_json;
  const Forecast& f = result.forecast;
  Json json{{"schema", "weir.explanation/1"}, {"basis", to_string(f.basis)}};
  json["stack"] = f.stack.empty() ? Json() : Json(f.stack);
  json["step_time_s"] = f.step_time.count();
  json["training_cost"] = training_cost_json(f);
  json["mfu"] = f.mfu ? Json(*f.mfu) : Json();
  json["waterfall"] = waterfall_json(result.waterfall);
  json["critical_path"] = critical_path_json(result.critical_path, result.waterfall.step);
  json["what_if"] = what_if_json(result.what_if);
  if (result.gap) {
    json["measured"] = {{"figure", result.measured}};
    json["measured"].update(gap_json(*result.gap));
    Json& mistaken = json["measured"]["mistaken"];
    if (const auto& other = result.mistaken)
      mistaken = {{"dtype", to_string(other->dtype)}, {"step_time_s", other->step_time.count()}};
  }
  return json;
}

}  // namespace weir::app
