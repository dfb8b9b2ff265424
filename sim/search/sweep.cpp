// SPDX-License-Identifier: Apache-2.0
#include "sim/search/sweep.hpp"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "plan/error.hpp"
#include "plan/lower.hpp"
#include "plan/model_import.hpp"
#include "plan/schedules/schedules.hpp"
#include "sim/forecast_json.hpp"
#include "sim/partition.hpp"
#include "sim/search/refine.hpp"

namespace weir {
namespace {

void refuse(std::vector<std::string>& refused, std::string reason) {
  if (std::find(refused.begin(), refused.end(), reason) == refused.end()) refused.push_back(std::move(reason));
}

// (M, b) pairs: M and b as given, or M with b = G / M.
std::vector<std::pair<int, int>> batches(const SweepRequest& request, std::vector<std::string>& refused) {
  std::vector<std::pair<int, int>> pairs;
  if (!request.global_batch_size) {
    for (const int m : request.microbatches) {
      for (const int b : request.micro_batch_size) pairs.emplace_back(m, b);
    }
    return pairs;
  }
  const int whole = *request.global_batch_size;
  std::vector<int> counts = request.microbatches;
  if (counts.empty()) {
    for (int m = 1; m <= whole; ++m) {
      if (whole % m == 0) counts.push_back(m);
    }
  }
  for (const int m : counts) {
    if (whole % m == 0) {
      pairs.emplace_back(m, whole / m);
    } else {
      refuse(refused, fmt::format("M = {} does not divide the mini-batch of {}", m, whole));
    }
  }
  return pairs;
}

void mark_pareto(std::vector<Ranked>& plans) {  // sorted by time: on the front where smaller than all faster ones
  Bytes least{std::numeric_limits<std::int64_t>::max()};
  for (Ranked& ranked : plans) {
    ranked.pareto = ranked.forecast.peak_memory() < least;
    least = std::min(least, ranked.forecast.peak_memory());
  }
}

}  // namespace

std::vector<std::int64_t> layer_times(const Model& model, const Plan& plan, const Costs& costs,
                                      const Cluster& cluster) {
  // A plan with every layer a stage of its own has the layers' times as its stages'.
  Plan single = plan;
  single.pp = static_cast<int>(model.layers.size());
  single.vpp = 1;
  single.microbatches = 1;
  single.boundaries.clear();
  for (int l = 1; l < single.pp; ++l) single.boundaries.push_back(l);
  LoadedPlan loaded{single, model, {}};
  loaded.schedule = std::get<Schedule>(make_schedule("gpipe", {single.pp, 1, 1}));
  const CostTableResult table = cost_table(loaded, costs, cluster);
  std::vector<std::int64_t> times;
  for (const StageCost& stage : table.table.stages) times.push_back(stage.f.count() + stage.b.count());
  return times;
}

std::vector<Plan> candidates(const SweepRequest& request, const Model& model, const Costs& costs,
                             const Cluster& cluster, std::vector<std::string>& refused) {
  std::vector<Plan> plans;
  const auto layers = static_cast<int>(model.layers.size());
  std::map<int, std::vector<std::int64_t>> times;  // by micro-batch size
  for (const auto& [m, b] : batches(request, refused)) {
    for (const int k : request.pp) {
      for (const int v : request.vpp) {
        if (k * v > layers) {
          refuse(refused, fmt::format("K*v = {} is above the {} layers", k * v, layers));
          continue;
        }
        for (const std::string& schedule : request.schedules) {
          const auto made = make_schedule(schedule, {k, v, m});
          if (const auto* reason = std::get_if<std::string>(&made)) {
            refuse(refused, *reason);
            continue;
          }
          Plan plan = request.base;
          plan.pp = k;
          plan.vpp = v;
          plan.microbatches = m;
          plan.micro_batch_size = b;
          plan.schedule = schedule;
          if (plan.slots > 0) {
            const int needed = fewest_slots(std::get<Schedule>(made), plan.slots);
            if (needed > plan.slots && request.exact_slots) {
              refuse(refused,
                     fmt::format("{} deadlocks with {} receive slots; {} are enough", schedule, plan.slots, needed));
              continue;
            }
            plan.slots = needed;
          }
          auto& layer_time = times[b];
          if (layer_time.empty()) layer_time = layer_times(model, plan, costs, cluster);
          plan.boundaries = best_boundaries(layer_time, k * v);
          for (const Recompute& recompute : request.recompute) {
            if (recompute.except_last && m == 1) continue;  // nothing would be left to re-materialise
            plan.recompute = recompute;
            plans.push_back(plan);
          }
        }
      }
    }
  }
  return plans;
}

SweepResult sweep(const SweepRequest& request, const Costs& costs, const Cluster& cluster) {
  const auto begin = std::chrono::steady_clock::now();
  SweepResult result;
  const Model model = load_model(request.folder / request.base.model_path);
  const std::vector<Plan> plans = candidates(request, model, costs, cluster, result.refused);
  std::vector<std::optional<Ranked>> found(plans.size());
  std::unique_ptr<tbb::global_control> limit;
  if (request.threads > 0) {
    limit = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                  static_cast<std::size_t>(request.threads));
  }
  tbb::parallel_for(std::size_t{0}, plans.size(), [&](std::size_t i) {
    LoadedPlan loaded = resolve(plans[i], request.folder);
    const auto ranked_as = [&](std::vector<int> boundaries) {
      loaded.plan.boundaries = std::move(boundaries);
      Ranked ranked{loaded.plan, forecast(loaded, costs, cluster).forecast, 0, false};
      ranked.forecast.memory_limit = request.memory_limit;
      return ranked;
    };
    Ranked ranked = ranked_as(refine_boundaries(loaded, costs, cluster).boundaries);
    // The even partition also evens out memory: it may fit where the faster one does not.
    if (!ranked.forecast.fits() && ranked.plan.boundaries != plans[i].boundaries)
      ranked = ranked_as(plans[i].boundaries);
    ranked.gap = ranked.forecast.step_time / ranked.forecast.lower_bound - 1;
    found[i] = std::move(ranked);
  });
  result.candidates = static_cast<int>(plans.size());
  for (auto& ranked : found) {
    if (ranked->forecast.fits()) {
      result.plans.push_back(std::move(*ranked));
    } else if (!result.smallest_misfit ||
               ranked->forecast.peak_memory() < result.smallest_misfit->forecast.peak_memory()) {
      result.smallest_misfit = std::move(*ranked);
    }
  }
  result.feasible = static_cast<int>(result.plans.size());
  std::stable_sort(result.plans.begin(), result.plans.end(), [](const Ranked& a, const Ranked& b) {
    if (a.forecast.step_time != b.forecast.step_time) return a.forecast.step_time < b.forecast.step_time;
    return a.forecast.peak_memory() < b.forecast.peak_memory();
  });
  mark_pareto(result.plans);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

std::string to_json(const SweepResult& result) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["schema"] = "weir.sweep/1";
  json["candidates"] = result.candidates;
  json["feasible"] = result.feasible;
  json["seconds"] = result.seconds;
  json["plans"] = Json::array();
  for (const Ranked& ranked : result.plans) {
    json["plans"].push_back({{"plan", Json::parse(to_json(ranked.plan))},
                             {"forecast", Json::parse(to_json(ranked.forecast))},
                             {"gap", ranked.gap},
                             {"pareto", ranked.pareto}});
  }
  json["refused"] = result.refused;
  return json.dump(2);
}

}  // namespace weir
