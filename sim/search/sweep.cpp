// Makes the candidates, forecasts them on all threads, and ranks those that fit.
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
#include <numeric>
#include <tuple>
#include <variant>

#include "costmodel/memory/stage_memory.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast_json.hpp"
#include "sim/search/balance.hpp"
#include "sim/search/baseline.hpp"
#include "sim/search/refine.hpp"

namespace weir {
namespace {

void refuse(std::vector<std::string>& refused, std::string reason) {
  if (std::find(refused.begin(), refused.end(), reason) == refused.end())
    refused.push_back(std::move(reason));
}

// (M, b) pairs of one replica of D: M and b as given, or M with b = G / (M D).
std::vector<std::pair<int, int>> batches(const SweepRequest& request, int dp,
                                         std::vector<std::string>& refused) {
  std::vector<std::pair<int, int>> pairs;
  if (!request.global_batch_size) {
    for (const int m : request.microbatches) {
      for (const int b : request.micro_batch_size) pairs.emplace_back(m, b);
    }
    return pairs;
  }
  if (*request.global_batch_size % dp != 0) {
    refuse(refused, fmt::format("dp = {} does not divide the mini-batch of {}", dp,
                                *request.global_batch_size));
    return pairs;
  }
  const int whole = *request.global_batch_size / dp;
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
      refuse(refused,
             dp == 1 ? fmt::format("M = {} does not divide the mini-batch of {}", m, whole)
                     : fmt::format("M = {} does not divide the {} samples of a replica", m, whole));
    }
  }
  return pairs;
}

// The base with every combination of parallel degrees, each once: ZeRO needs replicas, sequence
// parallelism tp.
std::vector<Plan> with_degrees(const SweepRequest& request) {
  std::vector<Plan> plans;
  for (const int tp : request.tp) {
    for (const int cp : request.cp) {
      for (const int dp : request.dp) {
        for (const int zero : request.zero) {
          Plan plan = request.base;
          plan.tp = tp;
          plan.cp = cp;
          plan.dp = dp;
          plan.zero = dp * cp > 1 ? zero : 0;
          plan.sequence_parallel = request.base.sequence_parallel && tp > 1;
          if (std::find(plans.begin(), plans.end(), plan) == plans.end()) plans.push_back(plan);
        }
      }
    }
  }
  return plans;
}

// Walks the combinations of one choice of degrees. What depends on fewer of them is found once.
class Candidates {
 public:
  Candidates(const SweepRequest& request, const Model& model, const Costs& costs,
             const Cluster& cluster, std::vector<std::string>& refused)
      : request_(request), model_(model), costs_(costs), cluster_(cluster), refused_(refused) {}

  void add(const Plan& base) {
    if (const auto misfit = cannot_split(model_, base.seq_length, base.split())) {
      refuse(refused_, misfit->key + ": " + misfit->reason);
      return;
    }
    Balance balance(model_, base, costs_, cluster_);
    const auto layers = static_cast<int>(model_.layers.size());
    for (const auto& [m, b] : batches(request_, base.dp, refused_)) {
      for (const int k : request_.pp) {
        if (request_.devices && std::int64_t{k} * base.tp * base.replicas() > *request_.devices)
          continue;
        for (const int v : request_.vpp) {
          if (k * v > layers) {
            refuse(refused_, fmt::format("K*v = {} is above the {} layers", k * v, layers));
            continue;
          }
          Plan plan = base;
          plan.pp = k;
          plan.vpp = v;
          plan.microbatches = m;
          plan.micro_batch_size = b;
          add_schedules(plan, balance);
        }
      }
    }
  }
  std::vector<Plan> plans;

 private:
  void add_schedules(Plan plan, Balance& balance) {
    for (const std::string& schedule : request_.schedules) {
      plan.schedule = schedule;
      plan.slots = request_.base.slots;
      const SlotsOrReason& slots = slots_for(plan);
      if (const auto* reason = std::get_if<std::string>(&slots)) {
        refuse(refused_, *reason);
        continue;
      }
      plan.slots = std::get<int>(slots);
      plan.boundaries = balance.boundaries(plan);
      for (const Recompute& recompute : request_.recompute) {
        if (recompute.except_last && plan.microbatches == 1)
          continue;  // nothing would be left to re-materialise
        Plan candidate = plan;
        candidate.recompute = recompute;
        plans.push_back(std::move(candidate));
      }
    }
  }

  using SlotsOrReason = std::variant<int, std::string>;
  const SlotsOrReason& slots_for(const Plan& plan) {
    const auto [found, fresh] =
        slots_.try_emplace({plan.schedule, plan.pp, plan.vpp, plan.microbatches});
    SlotsOrReason& slots = found->second;
    if (!fresh) return slots;
    const auto made = make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches});
    if (const auto* reason = std::get_if<std::string>(&made)) return slots = *reason;
    slots = plan.slots;
    if (plan.slots == 0) return slots;
    const int needed = fewest_slots(std::get<Schedule>(made), plan.slots);
    if (needed > plan.slots && request_.exact_slots) {
      return slots = fmt::format("{} deadlocks with {} receive slots; {} are enough", plan.schedule,
                                 plan.slots, needed);
    }
    return slots = needed;
  }

  const SweepRequest& request_;
  const Model& model_;
  const Costs& costs_;
  const Cluster& cluster_;
  std::vector<std::string>& refused_;
  std::map<std::tuple<std::string, int, int, int>, SlotsOrReason> slots_;
};

void mark_pareto(std::vector<Ranked>&
                     plans) {  // sorted by time: on the front where smaller than all faster ones
  Bytes least{std::numeric_limits<std::int64_t>::max()};
  for (Ranked& ranked : plans) {
    ranked.pareto = ranked.forecast.peak_memory() < least;
    least = std::min(least, ranked.forecast.peak_memory());
  }
}

}  // namespace

std::vector<std::int64_t> layer_times(const Model& model, const Plan& plan, const Costs& costs,
                                      const Cluster& cluster,
                                      std::shared_ptr<const ModelPart> part) {
  // A plan with every layer a stage of its own has the layers' times as its stages'.
  Plan single = plan;
  single.pp = static_cast<int>(model.layers.size());
  single.vpp = 1;
  single.microbatches = 1;
  single.boundaries.clear();
  for (int l = 1; l < single.pp; ++l) single.boundaries.push_back(l);
  const ResolvedPlan loaded =
      derive(single, model, std::get<Schedule>(make_schedule("gpipe", {single.pp, 1, 1})),
             std::move(part));
  const CostTableResult table = cost_table(loaded, costs, cluster);
  std::vector<std::int64_t> times;
  for (const StageCost& stage : table.table.stages)
    times.push_back(stage.f.count() + stage.b.count());
  return times;
}

bool goes_before(const Forecast& a, const Forecast& b) {
  if (a.step_time != b.step_time) return a.step_time < b.step_time;
  return a.peak_memory() < b.peak_memory();
}

std::vector<Split> splits(const SweepRequest& request, const Model& model) {
  std::vector<Split> found;
  std::vector<Plan> plans = with_degrees(request);
  if (request.baseline) plans.push_back(request.baseline->plan);
  for (const Plan& plan : plans) {
    const Split split = plan.split();
    const bool known = std::find(found.begin(), found.end(), split) != found.end();
    if (!known && !cannot_split(model, plan.seq_length, split)) found.push_back(split);
  }
  return found;
}

std::vector<Plan> candidates(const SweepRequest& request, const Model& model, const Costs& costs,
                             const Cluster& cluster, std::vector<std::string>& refused) {
  Candidates all(request, model, costs, cluster, refused);
  for (const Plan& base : with_degrees(request)) all.add(base);
  return std::move(all.plans);
}

namespace {

// Forecasts candidates on all threads. One whose ranks on average hold more than the limit from
// step to step fits with no partition: it is left unforecast, its bytes noted, until the smallest
// misfit is asked for.
class Forecasts {
 public:
  Forecasts(const SweepRequest& request, const Model& model, const Costs& costs,
            const Cluster& cluster, const std::vector<Plan>& plans)
      : request_(request),
        model_(model),
        costs_(costs),
        cluster_(cluster),
        plans_(plans),
        found_(plans.size()),
        held_(plans.size()) {
    for (const Plan& plan : plans) {
      auto& part = parts_[plan.split()];
      if (part) continue;
      part = std::make_shared<const ModelPart>(
          model_part(model, plan.seq_length, plan.dtype, plan.split()));
    }
  }

  // In the order of the candidates; none where it cannot fit.
  std::vector<std::optional<Ranked>>& run() {
    tbb::parallel_for(std::size_t{0}, plans_.size(), [&](std::size_t i) {
      Schedule schedule = schedule_of(plans_[i]);
      held_[i] = mean_held(plans_[i], *part_of(plans_[i]), schedule.shape, cluster_.device);
      if (!request_.memory_limit || held_[i] <= *request_.memory_limit)
        found_[i] = rank(plans_[i], std::move(schedule));
    });
    return found_;
  }

  // Of all that did not fit. A candidate's peak is at least what it holds, so most need no forecast
  // here either.
  [[nodiscard]] Ranked smallest_misfit() {
    std::vector<std::size_t> order(plans_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return held_[a] < held_[b]; });
    std::size_t best = order.front();
    for (const std::size_t i : order) {
      if (found_[best] && held_[i] >= found_[best]->forecast.peak_memory()) break;
      if (!found_[i]) found_[i] = rank(plans_[i], schedule_of(plans_[i]));
      if (found_[i]->forecast.peak_memory() < found_[best]->forecast.peak_memory()) best = i;
    }
    return *found_[best];
  }

 private:
  [[nodiscard]] static Schedule schedule_of(const Plan& plan) {
    return std::get<Schedule>(make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches}));
  }
  [[nodiscard]] const std::shared_ptr<const ModelPart>& part_of(const Plan& plan) const {
    return parts_.at(plan.split());
  }
  // Resolved as resolve() would: the model is one and its hash checked, the schedule proved with
  // its slots.
  [[nodiscard]] Ranked rank(const Plan& plan, Schedule schedule) const {
    ResolvedPlan resolved = derive(plan, model_, std::move(schedule), part_of(plan));
    const auto ranked = [&] {
      const ResolvedPlan& now = resolved;
      Ranked found{now.plan,
                   forecast(now, costs_, cluster_, {.detail = ForecastDetail::ranking}).forecast, 0,
                   false};
      found.forecast.memory_limit = request_.memory_limit;
      return found;
    };
    // Refining costs many times a forecast. The even partition also evens out memory: where it does
    // not fit, the faster one hardly does, and where that does not, the even one stands.
    Ranked best = ranked();
    if (best.forecast.fits()) {
      std::vector<int> refined = refine_boundaries(resolved, costs_, cluster_).boundaries;
      if (refined != plan.boundaries) {
        resolved = with_boundaries(std::move(resolved), std::move(refined));
        Ranked faster = ranked();
        if (faster.forecast.fits()) best = std::move(faster);
      }
    }
    best.gap = best.forecast.step_time / best.forecast.lower_bound - 1;
    return best;
  }

  const SweepRequest& request_;
  const Model& model_;
  const Costs& costs_;
  const Cluster& cluster_;
  const std::vector<Plan>& plans_;
  std::map<Split, std::shared_ptr<const ModelPart>> parts_;  // all candidates' of a split
  std::vector<std::optional<Ranked>> found_;
  std::vector<Bytes> held_;
};

}  // namespace

SweepResult sweep(const SweepRequest& request, const Costs& costs, const Cluster& cluster) {
  const auto begin = std::chrono::steady_clock::now();
  SweepResult result;
  Model model = load_model(request.folder / request.base.model_path);
  set_attention(model, request.base.attention);
  const std::vector<Plan> plans = candidates(request, model, costs, cluster, result.refused);
  if (!plans.empty()) static_cast<void>(resolve(plans.front(), request.folder));
  std::unique_ptr<tbb::global_control> limit;
  if (request.threads > 0) {
    limit = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                  static_cast<std::size_t>(request.threads));
  }
  Forecasts forecasts(request, model, costs, cluster, plans);
  auto& found = forecasts.run();
  result.candidates = static_cast<int>(plans.size());
  const auto fits = [](const std::optional<Ranked>& ranked) {
    return ranked && ranked->forecast.fits();
  };
  result.feasible = static_cast<int>(std::count_if(found.begin(), found.end(), fits));
  if (result.feasible == 0 && !plans.empty()) result.smallest_misfit = forecasts.smallest_misfit();
  for (auto& ranked : found) {
    if (fits(ranked)) result.plans.push_back(std::move(*ranked));
  }
  std::stable_sort(result.plans.begin(), result.plans.end(), [](const Ranked& a, const Ranked& b) {
    return goes_before(a.forecast, b.forecast);
  });
  mark_pareto(result.plans);
  if (request.baseline && !result.plans.empty())
    result.baseline = placed(request, result.plans, costs, cluster);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

namespace {

using Json = nlohmann::ordered_json;

Json ranked_json(const Ranked& ranked) {
  return {{"plan", Json::parse(to_json(ranked.plan))},
          {"forecast", Json::parse(to_json(ranked.forecast))},
          {"gap", ranked.gap},
          {"pareto", ranked.pareto}};
}

}  // namespace

std::string to_json(const SweepResult& result) {
  Json json;
  json["schema"] = "weir.sweep/1";
  json["candidates"] = result.candidates;
  json["feasible"] = result.feasible;
  json["seconds"] = result.seconds;
  json["plans"] = Json::array();
  for (const Ranked& ranked : result.plans) json["plans"].push_back(ranked_json(ranked));
  if (result.baseline) {
    json["baseline"] = ranked_json(result.baseline->ranked);
    json["baseline"]["place"] =
        result.baseline->place ? Json(*result.baseline->place) : Json(nullptr);
    json["baseline"]["ratio_to_best"] = result.baseline->ratio;
  }
  json["refused"] = result.refused;
  return json.dump(2);
}

}  // namespace weir
