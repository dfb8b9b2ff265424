// Forecasts a plan as a request asks for it: with other degrees, stragglers, failures.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/simulate/simulate.hpp"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "plan/text/new_file.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast/forecast_json.hpp"
#include "tools/app/jobs/import.hpp"
#include "tools/app/machine/unnamed_software.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/app/shared/traced_plan.hpp"
#include "tools/app/shared/training_tokens.hpp"
#include "tools/app/simulate/builtin_accuracy.hpp"
#include "traces/stats.hpp"

namespace weir::app {
namespace {

// A duration, or the result of a run that wrote checkpoints: their median time.
Seconds checkpoint_cost(const std::string& text) {
  // Anything but a file is a duration.
  if (!text.ends_with(".json")) return parse_duration(text, "--checkpoint-cost");
  const Json json = parse_json(read_text_file(text), text);
  JsonObject run(json, text, "");
  run.expect_schema("weir.run/1");
  if (!run.has("checkpoints")) run.fail("checkpoints", "the run wrote none");
  std::vector<double> times;
  for (JsonObject& checkpoint : run.objects("checkpoints"))
    times.push_back(checkpoint.number("time_s"));
  if (times.empty()) run.fail("checkpoints", "the run wrote none");
  return Seconds(median(std::move(times)));
}

std::optional<Reliability> reliability(const SimulateRequest& o) {
  if (o.mtbf.empty() && o.checkpoint_cost.empty() && o.restart_cost.empty()) return std::nullopt;
  // Goodput is a product of all three: a default would be a guess.
  if (o.mtbf.empty() || o.checkpoint_cost.empty() || o.restart_cost.empty()) {
    throw UsageError("goodput needs all of --mtbf, --checkpoint-cost and --restart-cost");
  }
  const Reliability r{parse_duration(o.mtbf, "--mtbf"), checkpoint_cost(o.checkpoint_cost),
                      parse_duration(o.restart_cost, "--restart-cost"),
                      parse_duration(o.downtime, "--downtime")};
  if (r.mtbf <= Seconds(0))
    throw UsageError(fmt::format("--mtbf {}: expected more than 0", o.mtbf));
  return r;
}

// "2=1.5": rank 2 computes 1.5 times slower.
std::map<std::int32_t, double> parse_stragglers(const std::vector<std::string>& texts, int ranks) {
  std::map<std::int32_t, double> stragglers;
  for (const std::string& text : texts) {
    std::int32_t rank = -1;
    double factor = 0;
    const char* const last = text.data() + text.size();
    const auto [equals, error] = std::from_chars(text.data(), last, rank);
    const bool named = error == std::errc() && equals != last && *equals == '=';
    const auto [end, bad] =
        named ? std::from_chars(equals + 1, last, factor) : std::from_chars_result{};
    if (!named || bad != std::errc() || end != last || !(factor > 0 && factor <= 1e6)) {
      throw UsageError(fmt::format("--straggler {}: expected RANK=FACTOR, as 2=1.5", text));
    }
    if (rank < 0 || rank >= ranks) {
      throw UsageError(fmt::format("--straggler {}: the plan has ranks 0 to {}", text, ranks - 1));
    }
    if (!stragglers.emplace(rank, factor).second)
      throw UsageError(fmt::format("--straggler {}: given twice", text));
  }
  return stragglers;
}

ForecastOptions forecast_options(const SimulateRequest& o) {
  ForecastOptions options;
  options.transfers = parse_transfers(o.transfers);
  if (o.samples) options.jitter = JitterRequest{*o.samples, o.seed};
  options.without_barrier = o.no_barrier;
  return options;
}

void save(const SimulateResult& result, const std::filesystem::path& folder,
          const Session& session) {
  NewFiles written;
  add_traced_plan(written, result.trace, moved_to(result.plan, folder), folder,
                  {folder, "predicted"}, session);
  // Last: with it the folder is whole.
  written.add(session.output(folder / "forecast.json"), to_json(result).dump(2) + "\n");
  written.commit();
}

}  // namespace

Fields fields(SimulateRequest& r) {
  Fields all{
      {"plan", &r.plan, "Plan file", {.required = true}},
      {"--costs", &r.costs, "Costs file (default: built in)"},
      {"--cluster", &r.cluster, "Cluster file or name (default: this machine)"},
      stack_field(r.stack),
      gpus_field(r.gpus),
      {"--memory-limit", &r.memory_limit, "Memory of a device, as \"80 GiB\""},
      {"--transfers", &r.transfers, "buffered, rendezvous, or batched as NCCL groups"},
      {"--samples",
       &r.samples,
       "Steps drawn from measured jitter (with --seed): a distribution",
       {.range = kSamples}},
      {"--no-barrier", &r.no_barrier, "Also the time of a step that the next one may overlap"}};
  append(all, fields(r.parallel));
  append(all, {{"--mtbf", &r.mtbf, "Mean time between failures of the whole job, as 3h"},
               {"--checkpoint-cost", &r.checkpoint_cost,
                "Time that training stands still for a checkpoint, or the run.json of a run that "
                "wrote some"},
               {"--restart-cost", &r.restart_cost, "Time from a restart until training goes on"},
               {"--downtime", &r.downtime, "Time from a failure until the restart begins"},
               {"--straggler", &r.stragglers,
                "RANK=FACTOR: this rank computes so many times slower (repeatable)"},
               train_tokens_field(r.train_tokens),
               {"-o,--output",
                &r.output,
                "Folder for forecast.json and the predicted trace",
                {.writes = Writes::folder}},
               seed_field(r.seed)});
  append(all, fields(r.picture, "the timeline"));
  append(all, {held_field(r.picture)});
  return all;
}

SimulateResult simulate(const SimulateRequest& r, const Session& session) {
  refuse_without_picture(r.picture, session);
  SimulateResult result{.name = name_of(r.plan), .plan = load(r.plan, session)};
  ResolvedPlan& loaded = result.plan.loaded;
  // Degrees that were given on the command line make another plan of the same model and schedule.
  Plan plan = loaded.plan;
  apply(r.parallel, plan);
  if (const auto misfit = cannot_divide(loaded.model, plan))
    throw InputError(result.name, misfit->key, misfit->reason);
  // Only a changed plan is derived anew: that takes time in large models.
  if (plan != loaded.plan)
    loaded = derive(std::move(plan), std::move(loaded.model), std::move(loaded.schedule));
  require_tokens(r.train_tokens, loaded.plan);
  const auto failures = reliability(r);
  Cluster cluster = machine({.cluster = r.cluster,
                             .stack = r.stack,
                             .costs = r.costs,
                             .job_stack = stack_of(loaded.plan.job)},
                            r.gpus, session);
  // Told with ranks, so after the plan is known.
  cluster.stragglers = parse_stragglers(r.stragglers, loaded.plan.pp);
  const ForecastOptions options = forecast_options(r);
  require_devices(loaded.plan, cluster, r.cluster, r.gpus);
  result.device = cluster.device.name;
  const Costs costs = load(r.costs, loaded.model, loaded.plan, cluster);
  auto [forecast, trace] = weir::forecast(loaded, costs, cluster, options);
  // Both widen the interval only: the expected step stays.
  widen_for_unnamed(forecast, loaded, cluster);
  widen_for_job(forecast, loaded, cluster);
  if (failures)
    forecast.goodput = GoodputForecast{*failures, best_checkpoints(forecast.step_time, *failures)};
  forecast.training_tokens = r.train_tokens;
  // A limit that was said comes before the cluster's.
  if (!r.memory_limit.empty()) {
    forecast.memory_limit = parse_memory(r.memory_limit, "--memory-limit");
  } else if (r.cluster) {
    forecast.memory_limit = cluster.largest_memory();
  }
  result.forecast = std::move(forecast);
  result.trace = std::move(trace);
  if (r.output) save(result, *r.output, session);
  const std::string title = fmt::format("{}: {}", summary(result.plan.loaded.plan),
                                        format_duration(result.forecast.step_time));
  save_timeline(r.picture, {TimelinePanel{title, {{&result.trace, 0, ""}}}}, session);
  return result;
}

nlohmann::ordered_json to_json(const SimulateResult& result) {
  auto json = forecast_json(result.forecast);
  if (result.forecast.basis == Basis::builtin) return with_accuracy(std::move(json), result.device);
  return json;
}

void require_success(const SimulateResult& result) {
  if (result.forecast.may_fit()) return;
  if (const auto host = result.forecast.host_too_full()) {
    throw NoFeasiblePlan(fmt::format("{} keeps {} with a node's host, which has {}", result.name,
                                     format_bytes(host->held()), format_bytes(host->memory)));
  }
  throw NoFeasiblePlan(fmt::format("{} needs {} on its fullest device, the limit is {}",
                                   result.name, format_bytes(result.forecast.peak_memory()),
                                   format_bytes(*result.forecast.memory_limit)));
}

}  // namespace weir::app
