// The loop from nothing known to plans that were run. Start at `tune`; each step is a function
// above it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/evaluate/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "exec/device/formats.hpp"
#include "exec/training/batches.hpp"
#include "exec/training/trainable.hpp"
#include "plan/text/new_file.hpp"
#include "plan/text/seal.hpp"
#include "plan/text/seen_from.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/words/error.hpp"
#include "sim/explain/plan_changes.hpp"
#include "sim/search/space/baseline.hpp"
#include "sim/search/sweep_json.hpp"
#include "tools/app/calibrate/fit_doubts.hpp"
#include "tools/app/evaluate/refit.hpp"
#include "tools/app/evaluate/trial.hpp"
#include "tools/app/evaluate/tune_plans.hpp"
#include "tools/app/evaluate/unfinished.hpp"
#include "tools/app/machine/host.hpp"
#include "tools/app/profile/profiling.hpp"
#include "tools/app/shared/explained_step.hpp"
#include "tools/app/shared/provenance.hpp"
#include "tools/app/shared/traced_plan.hpp"
#include "tools/app/shared/training_fields.hpp"
#include "traces/perfetto.hpp"

namespace weir::app {
namespace {

struct Contenders {
  std::vector<Trial> trials;
  std::size_t baseline = 0;  // of them
};

Contenders run_contenders(const TuneLoop& loop, const SweepResult& swept, const Costs& profile,
                          const Unfinished& unfinished, const Session& session) {
  const Chosen chosen = choose(loop, swept);
  Contenders contenders{.trials = {}, .baseline = chosen.baseline};
  for (const Plan& plan : chosen.plans) {
    contenders.trials.push_back(make_trial(plan, profile, loop.host));
    contenders.trials.back().first.forecast.memory_limit =
        swept.plans.front().forecast.memory_limit;
  }
  run_trials(contenders.trials,
             {.unfinished = unfinished,
              .title = "plan",
              .backend = loop.backend,
              .rounds = loop.request.rounds,
              .steps = loop.request.steps,
              .data = loop.request.data,
              .progress = session.part("run")},
             available_backends());
  return contenders;
}

ReportRow row_of(const Trial& c, bool baseline, std::optional<Seconds> left_out) {
  ReportRow row;
  row.plan = summary(c.plan.plan);
  row.baseline = baseline;
  row.forecast = c.first.forecast;
  row.recalibrated = left_out;
  row.measured = c.measured();
  row.measured_peak = c.measured_peak();
  row.comparison = compare(c.plan.program, c.first.trace, c.run.trace);
  row.measured_bubble = row.comparison.measured_metrics.bubble_fraction;
  row.predicted = c.first.trace;
  row.run = c.run.trace;
  return row;
}

// Says in each trace where it was made, and what came of each plan.
Report report_of(const TuneLoop& loop, Contenders& contenders, const SweepResult& swept,
                 const Costs& profile, const Refit& refit) {
  std::vector<Trial>& trials = contenders.trials;
  Report report{.model = loop.model.name,
                .machine = machine_name(loop.backend),
                .costs_origin = profile.origin,
                .candidates = swept.candidates,
                .feasible = swept.feasible,
                .error_before = refit.error_first,
                .error_after = refit.error_left_out};
  const auto shared =
      std::ranges::find_if(trials, [](const Trial& c) { return c.run.devices.size() > 1; });
  if (shared != trials.end()) report.machine += "; " + shared->run.devices.front().sharing;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    Trial& c = trials[i];
    auto& info = c.run.trace.info;
    info = {{"machine", report.machine},
            {"version", WEIR_VERSION},
            {"backend", loop.request.backend},
            {"seed", std::to_string(loop.base.seed)}};
    if (!c.run.devices.empty()) info["sharing"] = c.run.devices.front().sharing;
    report.rows.push_back(row_of(c, i == contenders.baseline, refit.left_out[i]));
  }
  // Stable: equal times stay in the ranking's order.
  std::ranges::stable_sort(report.rows, {}, &ReportRow::measured);
  return report;
}

// What the fastest of them does otherwise than the baseline: keys of the plan.
std::vector<ReportChange> changes_of(const Contenders& contenders) {
  const Plan& baseline = contenders.trials[contenders.baseline].plan.plan;
  const Trial& best = *std::ranges::min_element(contenders.trials, {}, &Trial::measured);
  // Texts bare, all else as the file has it.
  const auto cell = [](const Json& value) {
    if (value.is_null()) return std::string();
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  std::vector<ReportChange> rows;
  for (const PlanChange& change : step_changes(baseline, best.plan.plan))
    rows.push_back({change.key, cell(change.before), cell(change.after)});
  return rows;
}

// The fastest of them and the baseline, explained by the costs that forecast them.
std::vector<StepExplained> explained(const TuneLoop& loop, const Contenders& contenders,
                                     const Costs& profile, const Report& report,
                                     const Session& session) {
  const StackAbilities software = abilities_for(
      abilities({.stack = loop.request.stack, .costs = profile}, loop.host), loop.model);
  const CostsSource source = profile;
  std::vector<StepExplained> plans;
  const auto add = [&](const std::string& name, const Trial& trial) {
    // Who listens to the progress may end it, as between measurements.
    plans.push_back(explain_step({.name = name,
                                  .plan = trial.plan,
                                  .forecast = trial.first.forecast,
                                  .result = trial.first,
                                  .costs = profile,
                                  .source = source,
                                  .cluster = loop.host,
                                  .software = software,
                                  .over = within(kExplainedUnasked),
                                  .progress = session.part("explain")}));
  };
  const Trial& baseline = contenders.trials[contenders.baseline];
  const Trial& best = *std::ranges::min_element(contenders.trials, {}, &Trial::measured);
  add(report.no_winner.empty() ? "best plan" : "fastest plan", best);
  if (&baseline != &best) add(report.baseline, baseline);
  return plans;
}

// Sets the winner: the plan of which three steps in four are faster than three in four of any
// other's, on a machine that was left alone.
void name_winner(const std::vector<Trial>& contenders, TuneResult& result) {
  struct Steps {
    const Trial* trial;
    double faster, slower;  // quartiles
  };
  std::vector<Steps> all;
  for (const Trial& trial : contenders) {
    std::vector<double> times = trial.times;
    std::ranges::sort(times);
    const std::size_t last = times.size() - 1;
    all.push_back({&trial, times[last / 4], times[last - last / 4]});
  }
  std::ranges::stable_sort(all, {}, [](const Steps& of) { return of.trial->measured(); });
  const std::string name = summary(all.front().trial->plan.plan);
  // On a disturbed machine being fastest is luck.
  if (const std::string why = doubt(result.disturbance); !why.empty()) {
    result.report.disturbed = why;
    result.report.no_winner = fmt::format("the machine was disturbed: {}", why);
  } else if (all.size() > 1 && all[0].slower >= all[1].faster) {
    result.report.no_winner = fmt::format("{} and {} are nearer than their steps scatter", name,
                                          summary(all[1].trial->plan.plan));
  } else {
    result.winner = name;
  }
}

void add_contender(NewFiles& written, const Trial& c, std::size_t number,
                   const std::filesystem::path& folder, const Session& session) {
  Plan plan = c.plan.plan;
  plan.model_path = seen_from(folder, plan.model_path).string();
  written.add(session.output(folder / fmt::format("plan-{}.json", number)), to_json(plan));
  add_traced_plan(written, c.first.trace, c.plan, ".",
                  {folder, fmt::format("predicted-{}", number)}, session);
  add_traced_plan(written, c.run.trace, c.plan, ".", {folder, fmt::format("measured-{}", number)},
                  session);
  const std::array<const Trace*, 2> both{&c.first.trace, &c.run.trace};
  written.add(session.output(folder / fmt::format("both-{}.pftrace", number)), to_perfetto(both));
}

// All that the measurements depend on.
nlohmann::ordered_json asked_by(const TuneLoop& loop) {
  const TuneRequest& r = loop.request;
  nlohmann::ordered_json asked{{"command", "tune"},
                               {"version", WEIR_VERSION},
                               {"machine", machine_name(loop.backend)},
                               {"backend", r.backend},
                               {"devices", loop.devices},
                               {"base", to_json(loop.base)},
                               {"global_batch_size", r.global_batch_size},
                               {"plans", r.plans},
                               {"rounds", r.rounds},
                               {"steps", r.steps},
                               {"memory_limit", r.memory_limit},
                               {"stack", loop.host.stack.name},
                               {"data_sha256", nullptr},
                               {"baseline", nullptr}};
  if (loop.baseline) asked["baseline"] = to_json(loop.baseline->plan);
  if (r.data) asked["data_sha256"] = sha256_hex(read_data(*r.data));
  return asked;
}

}  // namespace

Fields fields(TuneRequest& r) {
  Fields all = weir::fields(r.plan);
  append(
      all,
      {{"--backend", &r.backend, "cpu or cuda"},
       {"-K,--pp",
        &r.devices,
        "Most ranks: cores, or equal shares of the GPUs (default: all cores, 2 shares)",
        {.range = kDevicesHere}},
       {"--global-batch-size", &r.global_batch_size, "Samples a step", {.range = kPositive}},
       {"--plans", &r.plans, "Plans to run besides the plain K = 1", {.range = kPositive}},
       {"--rounds", &r.rounds, "Times each plan is run, interleaved", {.range = kPositive}},
       {"--steps", &r.steps, "Measured steps a run", {.range = kPositive}},
       {"--baseline", &r.baseline,
        "The plan in use today, which is run, too, and compared with (default: the plain K = 1)"},
       {"--memory-limit", &r.memory_limit, "Memory of a device (default: 80 % of a core's share)"},
       {"--stack", &r.stack, "Software to forecast plans for (default: weir, which runs them)"},
       {"--data", &r.data, "Any file, as bytes (default: seeded synthetic tokens)"},
       {"-o,--output",
        &r.output,
        "Folder for plans, costs, traces and report.html; until they are written, for what is "
        "measured, in OUTPUT/unfinished",
        {.writes = Writes::folder}},
       {"--resume", &r.resume,
        "Go on with what a tune of the same request that was cut short has left in OUTPUT"},
       seed_field(r.seed)});
  append(all, fields(r.quiet));
  return all;
}

namespace {

// The plan in use as one that can be run beside the candidates; what the request leaves open of the
// job is that plan's.
std::optional<ResolvedPlan> taken_baseline(TuneRequest& r, const Session& session) {
  if (!is_given(r.baseline)) return std::nullopt;
  PlacedPlan placed = load(r.baseline, session);
  Plan& plan = placed.loaded.plan;
  require_whole_vocabulary(placed.loaded);  // before a profile is taken
  if (!session.given("seq-length")) r.plan.seq_length = plan.seq_length;
  if (!session.given("global-batch-size"))
    r.global_batch_size = mini_batch_of(plan, name_of(r.baseline));
  take_treatment(plan, session, r.plan);
  take_training(plan, session, r.plan, r.seed);
  // Layers are measured whole, on one device each.
  const std::initializer_list<std::pair<const char*, int>> degrees{
      {"dp", plan.dp}, {"tp", plan.tp}, {"cp", plan.cp}, {"ep", plan.ep}};
  for (const auto& [key, parts] : degrees) {
    if (parts > 1) {
      throw InputError(name_of(r.baseline), key,
                       fmt::format("{}; tune runs plans in stages alone: expected 1", parts));
    }
  }
  plan = rebased(plan, placed.folder, ".");
  return std::move(placed.loaded);
}

// That both train the same, and that its ranks are here.
void require_comparable(const TuneLoop& loop) {
  const std::string name = name_of(loop.request.baseline);
  const Plan& plan = loop.baseline->plan;
  const weir::SweepRequest request = sweep_request(loop);
  if (const auto differs = incomparable(*loop.baseline, request, loop.model, "tune"))
    throw InputError(name, differs->key, differs->reason);
  if (plan.pp > loop.devices) {
    throw InputError(name, "pp",
                     fmt::format("{}; here are at most {} ranks (-K)", plan.pp, loop.devices));
  }
  // A profile on GPUs is of one share and of all.
  if (std::ranges::find(request.pp, plan.pp) == request.pp.end()) {
    throw InputError(name, "pp",
                     fmt::format("{}; with --backend {} expected {} (-K)", plan.pp,
                                 loop.request.backend, fmt::join(request.pp, " or ")));
  }
}

// That the backend can run the plan in use and the job's format: a profile may take an hour.
void require_runnable(const TuneLoop& loop) {
  const auto lacks = [&](Dtype dtype) { return formats_instead_of(dtype, loop.backend); };
  if (loop.baseline) {
    const Dtype dtype = loop.baseline->plan.dtype;
    if (const auto formats = lacks(dtype)) {
      throw InputError(name_of(loop.request.baseline), "dtype",
                       fmt::format("{}; the {} backend computes in {}", to_string(dtype),
                                   loop.request.backend, *formats));
    }
    require_trainable(*loop.baseline, Replicas::one, loop.backend);
  }
  if (const auto formats = lacks(loop.base.dtype)) {
    throw UsageError(fmt::format("--dtype {}: the {} backend computes in {}",
                                 to_string(loop.base.dtype), loop.request.backend, *formats));
  }
}

TuneLoop prepared(TuneRequest& r, const Session& session) {
  std::optional<ResolvedPlan> baseline = taken_baseline(r, session);
  const BackendKind backend = parse_measuring_backend(r.backend);
  const int devices = r.devices.value_or(default_devices(backend));
  TuneLoop loop{.request = r,
                .backend = backend,
                .devices = devices,
                .host = local_cluster(backend, devices),
                .model = load_model(r.plan)};
  loop.base = base_plan(r.plan, r.seed, loop.model, session);
  if (baseline) take_unnamed(baseline->plan, loop.base);
  if (r.stack) loop.host.stack = load_stack_or_name(*r.stack);
  loop.baseline = std::move(baseline);
  if (loop.baseline) require_comparable(loop);
  require_runnable(loop);
  return loop;
}

// What is written beside the report.
struct Learnt {
  const Costs &profile, &costs;
  const SweepResult& again;
  const std::vector<Trial>& trials;
};

// All files together, or none: a reader never sees half a result.
void write_all(const TuneResult& result, const Learnt& learnt, const std::filesystem::path& folder,
               const Session& session) {
  const auto file = [&](const char* name) { return session.output(folder / name); };
  NewFiles written;
  written.add(file("profile.json"), sealed_text(weir::to_json(learnt.profile), 1));
  written.add(file("costs.json"), sealed_text(weir::to_json(learnt.costs), 1));
  written.add(file("sweep.json"), weir::to_json(learnt.again) + "\n");
  for (std::size_t i = 0; i < learnt.trials.size(); ++i)
    add_contender(written, learnt.trials[i], i, folder, session);
  written.add(file("report.html"), report_html(result.report));
  // Last: where it is there, all else is, and of the same request.
  written.add(file("tune.json"), to_json(result).dump(2) + "\n");
  written.commit();
}

}  // namespace

TuneResult tune(const TuneRequest& asked, const Session& session) {
  TuneRequest r = asked;
  const TuneLoop loop = prepared(r, session);
  const Unfinished unfinished(r.output, asked_by(loop), r.resume, session);
  wait_for_quiet(r.quiet, session);
  session.log("profiling this machine's layers");
  const Costs profile = unfinished.profile([&] {
    return profile_machine(loop.model, loop.base,
                           {.backend = loop.backend,
                            .micro_batch_sizes = divisors(r.global_batch_size),
                            .devices = loop.devices,
                            .progress = session.part("profile")});
  });
  session.log("sweeping");
  const SweepResult swept = ranking(loop, profile);
  session.log("running the most promising plans");
  const Watch watch;
  Contenders contenders = run_contenders(loop, swept, profile, unfinished, session);
  const std::vector<Trial>& trials = contenders.trials;
  const Disturbance disturbance = disturbance_of(profile, trials, watch);
  note_disturbance(disturbance, "what is learnt from these runs is as doubtful", session);
  session.log("recalibrating");
  const Refit learnt = refit(trials, profile, loop.host);
  if (disturbance.watched >= kLeastWatched) doubt_far_fits(learnt.quality, kOtherWork, session);
  if (!learnt.taken) session.note(why_not_taken(learnt));
  TuneResult result{.report = report_of(loop, contenders, swept, profile, learnt),
                    .recalibrated = learnt.taken,
                    .disturbance = disturbance};
  result.report.changes = changes_of(contenders);
  if (loop.baseline) result.report.baseline = "the present plan";
  name_winner(trials, result);
  result.report.explained = explained(loop, contenders, profile, result.report, session);
  result.report.provenance = provenance(session, r.seed);
  // Ranked again by what was learnt from the runs.
  const SweepResult again = sweep(sweep_request(loop), learnt.costs, loop.host);
  result.best = again.plans.front();
  write_all(result, {profile, learnt.costs, again, trials}, r.output, session);
  unfinished.finish();
  return result;
}

nlohmann::ordered_json to_json(const TuneResult& result) {
  const Report& report = result.report;
  nlohmann::ordered_json json{
      {"schema", "weir.tune/1"},
      {"machine", report.machine},
      {"candidates", report.candidates},
      {"feasible", report.feasible},
      {"disturbance", weir::to_json(result.disturbance)},
      {"median_abs_error", report.error_before},
      {"median_abs_error_left_out", or_null(report.error_after)},
      {"recalibrated", result.recalibrated},
      {"winner",
       result.winner.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(result.winner)},
      {"plans", nlohmann::ordered_json::array()}};
  for (const ReportRow& row : report.rows) {
    std::optional<double> recalibrated;
    if (row.recalibrated) recalibrated = row.recalibrated->count();
    json["plans"].push_back({{"plan", row.plan},
                             {"baseline", row.baseline},
                             {"predicted_step_time_s", row.forecast.step_time.count()},
                             {"recalibrated_step_time_s", or_null(recalibrated)},
                             {"measured_step_time_s", row.measured.count()},
                             {"predicted_peak_memory_bytes", row.forecast.peak_memory().count()},
                             {"measured_peak_memory_bytes", row.measured_peak.count()},
                             {"predicted_bubble_fraction", row.forecast.metrics.bubble_fraction},
                             {"measured_bubble_fraction", row.measured_bubble}});
  }
  return json;
}

}  // namespace weir::app
