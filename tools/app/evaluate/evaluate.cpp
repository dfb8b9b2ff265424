// Random plans, fitted, given an interval and judged. Start at `evaluate`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/evaluate/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "costmodel/fit/intervals.hpp"
#include "plan/text/new_file.hpp"
#include "plan/text/seal.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/calibrate/fit_doubts.hpp"
#include "tools/app/evaluate/random_plans.hpp"
#include "tools/app/evaluate/refit.hpp"
#include "tools/app/evaluate/torch_runs.hpp"
#include "tools/app/evaluate/trial.hpp"
#include "tools/app/evaluate/unfinished.hpp"
#include "tools/app/machine/host.hpp"
#include "tools/app/profile/profiling.hpp"
#include "tools/app/shared/provenance.hpp"
#include "tools/report/picture_file.hpp"
#include "tools/report/svg.hpp"
#include "traces/stats.hpp"

namespace weir::app {
namespace {

constexpr Range kPlansOrNone{0, 1 << 16};  // that fit, or set the interval
// Plans of the fit that are run again beside others, to see whether the machine kept its pace.
constexpr std::size_t kControls = 4;
// Of such a plan, the steps that show the pace of now.
constexpr std::size_t kLatestSteps = 2;
// Measured steps of a run whose start takes longer than a step.
constexpr int kStepsBesideWeights = 4;

// The K to draw from: those asked for, or up to a core each. The shares of a GPU are smaller the
// more there are, so a profile of them holds for one K.
std::vector<int> stages_of(const EvaluateRequest& r, BackendKind backend, const Model& model) {
  const int layers = static_cast<int>(model.layers.size());
  const bool cuda = backend == BackendKind::cuda;
  if (cuda && r.stages.size() > 1) {
    throw UsageError(
        "--backend cuda: --pp takes one number, since layers are timed on shares of the GPU for "
        "one K");
  }
  std::vector<int> stages = r.stages;
  if (stages.empty() && cuda) stages.push_back(default_devices(backend));
  if (stages.empty()) {
    for (int k = 1; k <= std::min(default_devices(backend), layers); ++k) stages.push_back(k);
  }
  for (const int k : stages) {
    if (k > layers) {
      throw InputError(r.plan.model, "layers",
                       fmt::format("K = {} needs as many layers, there are {}", k, layers));
    }
  }
  return stages;
}

nlohmann::ordered_json outcome_json(const Outcome& o) {
  nlohmann::ordered_json interval = nullptr, peak = nullptr;
  if (o.measured_peak.count() > 0) peak = o.measured_peak.count();
  if (o.interval) interval = {o.interval->low.count(), o.interval->high.count()};
  return {{"plan", summary(o.plan)},
          {"predicted_step_time_s", o.predicted.count()},
          {"by_profile_step_time_s", o.by_profile.count()},
          {"step_time_interval_s", interval},
          {"measured_step_time_s", o.measured().count()},
          {"times_s", o.times_s},
          {"predicted_peak_memory_bytes", o.predicted_peak.count()},
          {"measured_peak_memory_bytes", peak}};
}

// The plans of one evaluation and the costs they are forecast by, from the profile to the held-out
// plans' runs.
class Evaluator {
 public:
  Evaluator(const EvaluateRequest& r, const Session& session)
      : r_(r),
        session_(session),
        backend_(parse_measuring_backend(r.backend)),
        model_(load_model(r.plan)),
        base_(base_plan(r.plan, r.seed, model_, session)),
        stages_(stages_of(r, backend_, model_)),
        unfinished_(r.output, asked(), r.resume, session) {
    const int most = std::ranges::max(stages_);
    host_ = local_cluster(backend_, most);
    // A busy machine would be learnt as a slow one.
    wait_for_quiet(r.quiet, session);
    // Measured once: what a run that was cut short has left is taken up again.
    profile_ = unfinished_.profile([&] { return profiled(most); });
    costs_ = profile_;
    // All plans are drawn before any is run, so that no result decides which are judged.
    plans_ = random_plans({.stages = stages_,
                           .global_batch_size = r.global_batch_size,
                           .rematerialised = !by_torch(),
                           .spanning = r.fit,
                           .seed = r.seed},
                          r.fit + r.interval + r.held_out, base_, model_, costs_, host_);
  }

  EvaluateResult run() {
    if (r_.fit > 0) fit();
    if (r_.interval > 0) set_interval();
    EvaluationReport report = judge();
    report.disturbed = doubt(disturbance_);
    return {std::move(report), disturbance_};
  }

  // What was found, in place of an earlier evaluation's.
  void save(const EvaluateResult& result) const {
    const auto file = [&](const char* name) { return session_.output(r_.output / name); };
    const Chart scatter = scatter_chart(result.report.outcomes);
    const std::filesystem::path picture = file("evaluation.svg");
    NewFiles written;
    written.add(file("costs.json"), sealed_text(weir::to_json(costs_), 1));
    written.add(file("predictions.json"), predictions_);
    written.add(picture, to_svg(draw_chart(scatter)));
    written.add(session_.output(data_file(picture)), chart_csv(scatter));
    written.add(file("report.html"), evaluation_html(result.report));
    // Last: where it is there, all else is, and of the same evaluation.
    written.add(file("evaluation.json"), to_json(result).dump(2) + "\n");
    written.commit();
    unfinished_.finish();
  }

 private:
  [[nodiscard]] bool by_torch() const { return r_.executor == "torch"; }
  [[nodiscard]] TorchPython torch() const {
    return {r_.python, session_.output(unfinished_.folder() / "torch")};
  }

  // All that the measurements depend on.
  [[nodiscard]] nlohmann::ordered_json asked() const {
    nlohmann::ordered_json asked{{"command", "evaluate"},
                                 {"version", WEIR_VERSION},
                                 {"machine", machine_name(backend_)},
                                 {"backend", r_.backend},
                                 {"executor", r_.executor}};
    if (by_torch()) asked["python"] = r_.python;
    // Whether a file is the same is known by its content, not by its name.
    if (r_.costs) asked["costs"] = sha256_hex(read_text_file(*r_.costs));
    asked.update({{"stages", stages_},
                  {"base", to_json(base_)},
                  {"global_batch_size", r_.global_batch_size},
                  {"fit", r_.fit},
                  {"interval", r_.interval},
                  {"held_out", r_.held_out},
                  {"rounds", r_.rounds}});
    return asked;
  }

  [[nodiscard]] Costs profiled(int most) const {
    if (r_.costs) return load_costs(*r_.costs);
    const std::vector<int> sizes = divisors(r_.global_batch_size);
    if (by_torch()) return profile_by_torch(torch(), base_, sizes, most);
    return profile_machine(model_, base_,
                           {.backend = backend_,
                            .micro_batch_sizes = sizes,
                            .devices = backend_ == BackendKind::cuda ? most : 0,
                            .progress = session_.part("profile")});
  }

  // The next `count` plans, forecast and then run.
  [[nodiscard]] std::vector<Trial> next_trials(int count) {
    std::vector<Trial> made;
    for (int i = 0; i < count; ++i) made.push_back(make_trial(plans_[used_++], costs_, host_));
    return made;
  }
  void run_all(std::vector<Trial>& trials, const char* title, int rounds) const {
    const int steps = by_torch() || backend_ == BackendKind::cuda ? kStepsBesideWeights : 1;
    const TrialOptions options{.unfinished = unfinished_,
                               .title = title,
                               .backend = backend_,
                               .rounds = rounds,
                               .steps = steps,
                               .seed = r_.seed + 1,
                               .progress = session_.part(title)};
    if (by_torch()) {
      run_trials_by_torch(torch(), trials, options);
    } else {
      run_trials(trials, options, available_backends());
    }
  }

  // Runs them with some plans of the fit among them, which it returns.
  [[nodiscard]] std::vector<RunAgain> run_beside_controls(std::vector<Trial>& trials,
                                                          const char* title) const {
    const std::size_t own = trials.size();
    for (const Control& control : controls_)
      trials.push_back(make_trial(control.plan, costs_, host_));
    run_all(trials, title, r_.rounds);
    std::vector<RunAgain> again;
    for (std::size_t i = 0; i < controls_.size(); ++i)
      again.push_back({controls_[i].plan, controls_[i].last, trials[own + i].times});
    trials.resize(own);
    return again;
  }

  void fit() {
    const Watch watch;
    std::vector<Trial> fitting = next_trials(r_.fit);
    run_all(fitting, "fit", 3);
    // Some plans are run again later: how much slower they are is the machine's pace, not the
    // model's error.
    for (std::size_t i = 0; i < std::min(kControls, fitting.size()); ++i)
      controls_.push_back({fitting[i].plan.plan, fitting[i].measured()});
    disturbance_ = disturbance_of(costs_, fitting, watch);
    note_disturbance(disturbance_, "what is learnt from these runs is as doubtful", session_);
    Refit learnt = refit(fitting, costs_, host_);
    if (disturbance_.watched >= kLeastWatched) doubt_far_fits(learnt.quality, kOtherWork, session_);
    if (!learnt.taken) session_.note(why_not_taken(learnt));
    // The profile's own costs, where the fit forecasts plans that it has not seen worse than they
    // do.
    costs_ = std::move(learnt.costs);
    std::vector<double> misses;
    for (const Trial& t : fitting) {
      const Seconds predicted = forecast(t.plan, costs_, host_).forecast.step_time;
      misses.push_back(std::abs(std::log(t.measured() / predicted)));
    }
    model_spread_ = median(misses);
  }

  void set_interval() {
    std::vector<Trial> setting = next_trials(r_.interval);
    std::vector<RunAgain> again = run_beside_controls(setting, "interval");
    std::vector<Miss> misses;
    for (const Trial& t : setting) {
      const Forecast& f = t.first.forecast;
      misses.push_back({std::log(t.measured() / f.step_time), f.jitter_spread});
      costs_.range = widened(costs_.range.value_or(CalibratedRange{}), t.plan.plan);
    }
    // Of the misses on these plans, none of which the fit has seen (docs/theory.md 9.1).
    costs_.interval = conformal_interval(misses, 0.9, model_spread_);
    // The misses have what the machine's pace moved since the fit, as those of forecasts will have
    // what it moves from here; the forecasts start at the pace of now.
    for (std::size_t i = 0; i < again.size(); ++i) {
      std::vector<double>& times = again[i].times_s;
      if (times.size() > kLatestSteps) times.erase(times.begin(), times.end() - kLatestSteps);
      controls_[i].last = again[i].now();
    }
    const double longer = slower(again);
    for (const ActionKind kind : kComputeKinds) costs_.correction[kind] *= std::exp(longer);
  }

  // Writes what is forecast, and says its hash, before any of these plans is run.
  [[nodiscard]] std::string commit(const std::vector<Trial>& held_out) {
    nlohmann::ordered_json predictions{{"schema", "weir.predictions/1"},
                                       {"plans", nlohmann::ordered_json::array()}};
    for (const Trial& t : held_out) {
      predictions["plans"].push_back(
          {{"plan", summary(t.plan.plan)},
           {"step_time_s", t.first.forecast.step_time.count()},
           {"peak_memory_bytes", t.first.forecast.peak_memory().count()}});
    }
    predictions_ = predictions.dump(2) + "\n";
    unfinished_.put("predictions", predictions_);
    std::string hash = sha256_hex(predictions_);
    session_.log("predictions " + hash);
    return hash;
  }

  EvaluationReport judge() {
    std::vector<Trial> held_out = next_trials(r_.held_out);
    // The forecasts' hash is fixed before the first held-out run: nobody can have adjusted them.
    EvaluationReport report{.model = model_.name,
                            .machine = by_torch() ? costs_.machine : machine_name(backend_),
                            .seed = r_.seed,
                            .fitted = r_.fit,
                            .predictions_sha256 = commit(held_out),
                            .interval = costs_.interval};
    report.provenance = provenance(session_, r_.seed);
    const Watch watch;
    std::vector<RunAgain> again = run_beside_controls(held_out, "held-out");
    const Disturbance judged = disturbance_of({}, held_out, watch);
    note_disturbance(judged, "errors of forecasts are of this, too", session_);
    disturbance_ = worse_of(disturbance_, judged);
    std::vector<Comparison> comparisons;
    for (const Trial& t : held_out) {
      const Forecast& f = t.first.forecast;
      report.outcomes.push_back({t.plan.plan, f.step_time,
                                 forecast(t.plan, profile_, host_).forecast.step_time, f.interval,
                                 t.times, r_.rounds, f.peak_memory(), t.measured_peak()});
      comparisons.push_back(compare(t.plan.program, t.first.trace, t.run.trace));
    }
    report.idle = idle_shares(comparisons);
    const auto& devices = held_out.front().run.devices;
    if (!devices.empty()) report.sharing = devices.front().sharing;
    report.accuracy = accuracy(report.outcomes);
    if (!again.empty()) report.pace = pace_of(report.outcomes, std::move(again));
    if (report.interval)
      report.band = coverage_band(*report.interval, report.accuracy.with_interval);
    return report;
  }

  const EvaluateRequest& r_;
  const Session& session_;
  BackendKind backend_;
  Model model_;
  Plan base_;
  std::vector<int> stages_;
  Unfinished unfinished_;
  Cluster host_;
  Costs profile_, costs_;  // as measured; fitted, and with an interval
  struct Control {
    Plan plan;
    Seconds last;  // its median step when it was last run
  };
  std::vector<Control> controls_;
  std::vector<Plan> plans_;
  std::size_t used_ = 0;     // of the plans
  std::string predictions_;  // of the held-out plans, as they are written
  double model_spread_ = 0;
  Disturbance disturbance_;  // the worst so far
};

}  // namespace

Fields fields(EvaluateRequest& r) {
  Fields all = weir::fields(r.plan);
  append(all, {{"--backend", &r.backend, "cpu or cuda"},
               {"--executor",
                &r.executor,
                "weir, or torch: torch.distributed.pipelining, on GPUs where PyTorch has them",
                {.choices = {"weir", "torch"}}},
               {"--python", &r.python, "With PyTorch and the package weir, for --executor torch"},
               {"--costs", &r.costs, "Profile to forecast by (default: measured first)"},
               {"-K,--pp",
                &r.stages,
                "Stages to draw from, 1,2,4 (default: up to a core each; cuda: one number, 2)",
                {.range = kDevicesHere}},
               {"--global-batch-size", &r.global_batch_size, "Samples a step", {.range = kPlans}},
               {"--fit", &r.fit, "Plans that fit the model", {.range = kPlansOrNone}},
               {"--interval",
                &r.interval,
                "Plans that set the interval (9 or more)",
                {.range = kPlansOrNone}},
               {"--held-out", &r.held_out, "Plans forecast before they are run", {.range = kPlans}},
               {"--rounds", &r.rounds, "Runs of each held-out plan", {.range = kPlans}},
               {"-o,--output",
                &r.output,
                "Folder; until all is measured for what is, in OUTPUT/unfinished",
                {.writes = Writes::folder}},
               {"--resume", &r.resume,
                "Go on with what an evaluation of the same request that was cut short has left in "
                "OUTPUT"},
               seed_field(r.seed)});
  append(all, fields(r.quiet));
  return all;
}

EvaluateResult evaluate(const EvaluateRequest& r, const Session& session) {
  Evaluator evaluator(r, session);
  EvaluateResult result = evaluator.run();
  evaluator.save(result);
  return result;
}

nlohmann::ordered_json to_json(const EvaluateResult& result) {
  const EvaluationReport& r = result.report;
  const Accuracy& a = r.accuracy;
  nlohmann::ordered_json coverage = nullptr, sharing = nullptr, memory = nullptr, pace = nullptr;
  if (a.memory_error) memory = *a.memory_error;
  if (r.interval) {
    coverage = {{"nominal", r.interval->nominal},
                {"hits", a.hits},
                {"of", a.with_interval},
                {"band", {r.band.low, r.band.high}},
                {"calibration_plans", r.interval->calibration_plans}};
  }
  if (!r.sharing.empty()) sharing = r.sharing;
  if (r.pace) {
    pace = {{"ratio", r.pace->ratio},
            {"median_abs_error", r.pace->median_error},
            {"hits", nullptr},
            {"plans", nlohmann::ordered_json::array()}};
    if (r.interval) pace["hits"] = r.pace->hits;
    for (const RunAgain& p : r.pace->plans) {
      pace["plans"].push_back({{"plan", summary(p.plan)},
                               {"earlier_step_time_s", p.earlier.count()},
                               {"times_s", p.times_s}});
    }
  }
  const auto differ = rounds_differ(r.outcomes);
  const nlohmann::ordered_json rounds{{"median_abs_difference", or_null(differ)},
                                      {"tell", tells(a.median_error, differ)}};
  nlohmann::ordered_json json{{"schema", "weir.evaluation/1"},
                              {"machine", r.machine},
                              {"seed", r.seed},
                              {"predictions_sha256", r.predictions_sha256},
                              {"disturbance", weir::to_json(result.disturbance)},
                              {"plans", r.outcomes.size()},
                              {"median_abs_error", a.median_error},
                              {"p95_abs_error", a.p95_error},
                              {"rounds", rounds},
                              {"by_profile",
                               {{"median_abs_error", a.by_profile_median_error},
                                {"p95_abs_error", a.by_profile_p95_error}}},
                              {"kendall_tau", a.tau},
                              {"top1_regret", a.regret},
                              {"coverage", coverage},
                              {"pace", pace},
                              {"memory_max_abs_error", memory},
                              {"sharing", sharing},
                              {"idle", nlohmann::ordered_json::object()},
                              {"trials", nlohmann::ordered_json::array()}};
  for (std::size_t c = 0; c < kIdleCauses.size(); ++c) {
    json["idle"][kIdleCauses[c].name] = {{"predicted", r.idle.predicted[c]},
                                         {"measured", r.idle.measured[c]}};
  }
  for (const Outcome& o : r.outcomes) json["trials"].push_back(outcome_json(o));
  return json;
}

}  // namespace weir::app
