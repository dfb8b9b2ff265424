// Walks a search's space on all threads.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/sweep.hpp"

#include <fmt/format.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <variant>

#include "plan/job/summary.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"
#include "sim/parallel.hpp"
#include "sim/search/best_first.hpp"
#include "sim/search/front.hpp"
#include "sim/search/partitions/balance.hpp"
#include "sim/search/space/baseline.hpp"
#include "sim/search/space/followers.hpp"
#include "sim/search/space/legality.hpp"
#include "sim/search/space/open_choices.hpp"
#include "sim/search/space/placements.hpp"

namespace weir {
namespace {

// Collects what is legal, and of the rest each reason once.
class Candidates {
 public:
  Candidates(const SweepRequest& request, const Model& model, SplitCosts& known,
             const Cluster& cluster, std::vector<std::string>& refused)
      : request_(request),
        model_(model),
        known_(known),
        cluster_(cluster),
        refused_(refused),
        legality_(request, model, cluster) {}

  // All combinations of one choice of degrees.
  void add(const Plan& base) {
    if (refuse(legality_.split(base)) || refuse(legality_.replicas(base))) return;
    // One for all plans of these degrees, so that layers are priced once.
    Balance balance(known_.add(base), cluster_);
    divided_.clear();
    Plan plan = base;
    const auto take = [&plan](const Batch& batch) {
      plan.microbatches = batch.microbatches;
      plan.micro_batch_size = batch.micro_batch_size;
    };
    std::vector<Batch> legal = batches(request_, base);
    std::erase_if(legal, [&](const Batch& batch) {
      take(batch);
      return refuse(legality_.microbatches(plan));
    });
    for (const Batch& batch : legal) {
      take(batch);
      for (const int k : request_.pp) {
        plan.pp = k;
        if (legality_.wrong_devices(plan) || same_order(request_, plan)) continue;
        for (const int v : chunks(request_, model_, k)) {
          plan.vpp = v;
          if (refuse(legality_.stages(plan))) continue;
          for (auto& placement : placements(plan, cluster_)) {
            plan.placement = std::move(placement);
            add_schedules(plan, balance);
          }
          plan.placement.clear();
        }
      }
    }
  }
  std::vector<Plan> plans;

 private:
  bool refuse(const std::optional<std::string>& reason) {
    if (reason && std::ranges::find(refused_, *reason) == refused_.end())
      refused_.push_back(*reason);
    return reason.has_value();
  }

  // Whether its schedule divides nothing, or may: with layers that are rebuilt or none, which is
  // asked of each plan.
  bool can_have_shards(Plan plan) {
    plan.recompute = {};
    if (refuse(legality_.shards(plan))) return false;
    return !divides_vocabulary(plan.schedule) || !refuse(known_.add_divided(plan));
  }

  void add_schedules(Plan plan, Balance& balance) {
    if (request_.stop && request_.stop()) return;
    for (const std::size_t s : schedules_for(request_, plan.pp)) {
      plan.schedule = request_.schedules[s];
      if (legality_.order_beyond(plan)) continue;
      if (!can_have_shards(plan)) continue;
      plan.slots = request_.base.slots;
      const auto& slots = legality_.slots(plan);
      if (const auto* reason = std::get_if<std::string>(&slots)) {
        refuse(*reason);
        continue;
      }
      plan.slots = std::get<int>(slots);
      // With shards stages have other layers.
      Balance& its = divides_vocabulary(plan.schedule)
                         ? divided_.try_emplace(plan.pp, known_.of(plan), cluster_).first->second
                         : balance;
      plan.boundaries = its.boundaries(plan);
      for (const Recompute& recompute : request_.recompute) {
        if (recompute.except_last && plan.microbatches == 1)
          continue;  // nothing would be left to re-materialise
        plans.push_back(plan);
        plans.back().recompute = recompute;
        settle(request_, plans.back());
        if (offloads_nothing(request_, plans.back()) || refuse(legality_.shards(plans.back()))) {
          plans.pop_back();
          continue;
        }
        // Asked last, because the stack's answer depends on what is rebuilt.
        const auto following = followers_.of(plans.back());
        if (legality_.degrees_beyond(plans.back())) plans.pop_back();
        if (following && !legality_.degrees_beyond(*following)) plans.push_back(*following);
      }
    }
  }

  const SweepRequest& request_;
  const Model& model_;
  SplitCosts& known_;
  const Cluster& cluster_;
  std::vector<std::string>& refused_;
  Legality legality_;
  Followers followers_{request_.dynamic_cp};
  std::map<int, Balance> divided_;  // of the degrees at hand, by ranks that divide the vocabulary
};

// Of candidates of which none fits. A peak is at least what is held, so most need no forecast here
// either.
Ranked smallest_misfit(const std::vector<Plan>& plans, std::vector<CandidateCost>& found,
                       const CandidateSources& sources, std::optional<Bytes> limit) {
  std::vector<std::size_t> order(plans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return found[a].held < found[b].held; });
  std::size_t best = order.front();
  const auto peak = [&](std::size_t i) { return found[i].ranked->forecast.peak_memory(); };
  for (const std::size_t i : order) {
    // In the order of what they hold at least: from here on no peak is smaller.
    if (found[best].ranked && found[i].held >= peak(best)) break;
    if (!found[i].ranked) found[i] = cost_of(plans[i], sources, {limit, true});
    if (peak(i) < peak(best)) best = i;
  }
  return *found[best].ranked;
}

}  // namespace

std::vector<Plan> candidates(const SweepRequest& request, const Model& model, SplitCosts& known,
                             const Cluster& cluster, std::vector<std::string>& refused) {
  Candidates all(request, model, known, cluster, refused);
  for (const Plan& base : with_degrees(request, model)) all.add(base);
  return std::move(all.plans);
}

namespace {

// Of both partitions of each.
std::vector<Ranked> front_of(const std::vector<CandidateCost>& found) {
  std::vector<Ranked> all;
  for (const CandidateCost& cost : found) {
    for (const auto& one : {cost.ranked, cost.other})
      if (one && one->forecast.may_fit()) all.push_back(*one);
  }
  return pareto_front(std::move(all));
}

// What a candidate needs of memory, at least; of a host where that alone is too much.
struct Needed {
  Bytes memory{0};
  std::optional<HostHeld> host{};
};
std::vector<Needed> needs(const std::vector<CandidateCost>& found) {
  std::vector<Needed> all;
  for (const CandidateCost& cost : found) {
    Needed& its = all.emplace_back(Needed{.memory = cost.held});
    if (!cost.ranked) continue;
    its = {cost.ranked->forecast.peak_memory(), cost.ranked->forecast.host_too_full()};
  }
  return all;
}

// `ranked`: all that fit, best first. `whole`: every candidate was looked at; `listed`: all of them
// are in `plans`.
FamilyBest best_of(const Family& family, const std::vector<Plan>& plans,
                   const std::vector<Needed>& needed, const std::vector<Ranked>& ranked, bool whole,
                   bool listed) {
  FamilyBest row{.gap = whole ? 0 : std::numeric_limits<double>::infinity(), .any = false};
  for (const Ranked& one : ranked) {
    if (!family.has(one.plan)) continue;
    row.any = true;
    row.best = one;
    return row;
  }
  // What was never looked at is not left out by its memory.
  if (!whole) {
    row.any = std::ranges::any_of(plans, family.has);
    row.not_come_to = row.any || !listed;
    return row;
  }
  LeftOut memory{"memory"}, host{"host memory"};
  std::optional<std::size_t> nearest;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (!family.has(plans[i])) continue;
    row.any = true;
    if (needed[i].host) {
      leave_out(host, plans[i], *needed[i].host);
      continue;
    }
    ++memory.count;
    if (!nearest || needed[i].memory < needed[*nearest].memory) nearest = i;
  }
  if (nearest) {
    memory.nearest = fmt::format("{} needs at least {}", summary(plans[*nearest]),
                                 format_bytes(needed[*nearest].memory));
    row.left_out.push_back(std::move(memory));
  }
  if (host.count > 0) row.left_out.push_back(std::move(host));
  return row;
}

using Moment = std::chrono::steady_clock::time_point;

bool budget_spent(const SweepRequest& request, Moment begin) {
  const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - begin;
  return request.budget && gone.count() >= request.budget->count();
}

bool stopped(const SweepRequest& request) { return request.stop && request.stop(); }

// What ends a small search, asked by all its threads. Processes that search together end at the
// same candidate, so there it is asked between blocks of them, and the first one's answer counts.
class SmallSearchEnd {
 public:
  SmallSearchEnd(const SweepRequest& request, Moment begin) : request_(request), begin_(begin) {}

  bool over() {
    if (!request_.party) look();
    return by_signal_ || out_of_time_;
  }
  bool over_between_blocks() {
    if (!request_.party) return over();
    look();
    const char* const mine = by_signal_ ? "signal" : out_of_time_ ? "time" : "no";
    const std::string said = request_.party->exchange(mine).front();
    by_signal_ = said == "signal";
    out_of_time_ = said == "time";
    return over();
  }
  [[nodiscard]] bool by_signal() const { return by_signal_; }

 private:
  void look() {
    if (!by_signal_ && stopped(request_)) by_signal_ = true;
    if (!out_of_time_ && budget_spent(request_, begin_)) out_of_time_ = true;
  }

  const SweepRequest& request_;
  const Moment begin_;
  std::atomic<bool> by_signal_ = false;  // set by whichever thread hears it
  std::atomic<bool> out_of_time_ = false;
};

// All of them, forecast, as far as the budget goes: by then, or by a signal, their listing may have
// ended too.
void forecast_all(const SweepRequest& request, const std::vector<Plan>& plans,
                  const CandidateSources& sources, Moment begin, SweepResult& result) {
  std::vector<CandidateCost> found(plans.size());  // each thread writes its own places
  std::atomic<std::int64_t> passed = 0;
  SmallSearchEnd end(request, begin);
  const auto over = [&end] { return end.over(); };
  constexpr std::size_t kTogether = 16;
  const std::size_t block = request.party ? kTogether : plans.size();
  for (std::size_t first = 0; first < plans.size(); first += block) {
    const std::size_t count = std::min(block, plans.size() - first);
    const bool ended = end.over_between_blocks();
    in_parallel(count, [&](std::size_t i) {
      if (ended || over()) {
        ++passed;
        return;
      }
      const std::size_t at = first + i;
      found[at] = cost_of(plans[at], sources, {.memory = request.memory_limit, .over = over});
    });
  }
  result.candidates = static_cast<int>(plans.size());
  const auto fits = [](const CandidateCost& cost) {
    return cost.ranked && cost.ranked->forecast.may_fit();
  };
  result.feasible = static_cast<int>(std::ranges::count_if(found, fits));
  // Without a candidate nobody has asked: they may have ended while candidates were made.
  const bool ended = plans.empty() ? end.over_between_blocks() : over();
  if (ended) {
    const std::int64_t looked_at = std::ssize(plans) - passed;
    if (end.by_signal()) {
      result.stopped_after = looked_at;
    } else {
      int simulated = 0;
      for (const CandidateCost& cost : found) simulated += cost.simulated;
      result.effort =
          SearchEffort{.looked_at = looked_at, .refined = looked_at, .simulated = simulated};
    }
    result.gap = std::numeric_limits<double>::infinity();
  } else if (result.feasible == 0 && !plans.empty()) {
    result.smallest_misfit = smallest_misfit(plans, found, sources, request.memory_limit);
  }
  if (request.front) result.front = front_of(found);
  const std::vector<Needed> needed = needs(found);
  LeftOut host{"host memory"};
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (needed[i].host) leave_out(host, plans[i], *needed[i].host);
  result.left_out.push_back(std::move(host));
  for (CandidateCost& cost : found) {
    if (fits(cost)) result.plans.push_back(std::move(*cost.ranked));
  }
  rank(result.plans);
  if (!result.plans.empty()) {
    const Ranked& fastest = *std::ranges::min_element(
        result.plans, {}, [](const Ranked& one) { return one.forecast.step_time; });
    const bool sure = result.plans.front().forecast.fits() == Fits::yes;
    if (sure && fastest.forecast.fits() == Fits::maybe) result.faster_if_it_fits = fastest;
  }
  for (const Family& family : request.families)
    result.families.push_back(best_of(family, plans, needed, result.plans, !ended, result.listed));
}

// So many candidates are forecast each, whether all are wanted or not.
constexpr std::size_t kFew = 256;

}  // namespace

SweepResult sweep(const SweepRequest& asked, const Costs& costs, const Cluster& cluster) {
  const auto begin = std::chrono::steady_clock::now();
  // Bounds of partitions are of boundaries that carry all that crosses them.
  if (asked.base.skips == SkipTransport::direct)
    throw InputError("plan", "skips", "direct: a search is of plans whose skips are relayed");
  Model model = load_model(asked.folder / asked.base.model_path);
  set_treatment(model, asked.base);
  const SweepRequest request = with_open_choices(asked, model, cluster);
  SplitCosts known(model, costs, cluster.stack);
  std::unique_ptr<tbb::global_control> limit;
  if (request.threads > 0) {
    limit = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                  static_cast<std::size_t>(request.threads));
  }
  SweepResult result;
  std::optional<Nodes> nodes;
  // Without a number to keep all plans are wanted, and none may be passed over.
  if (request.keep) nodes = enumerate(request, model, known, cluster);
  if (nodes && (nodes->all.size() > kFew || !nodes->whole)) {
    result = best_first(request, *nodes, known, cluster);
  } else {
    // What ends the search ends their listing too, the budget like a signal.
    SweepRequest listing = request;
    bool all_listed = true;
    listing.stop = [&] {
      // Processes that search together list the same: there it goes by nobody's clock and signal,
      // which are asked for between blocks of forecasts.
      if (!request.party && (stopped(request) || budget_spent(request, begin))) all_listed = false;
      return !all_listed;
    };
    const std::vector<Plan> plans = candidates(listing, model, known, cluster, result.refused);
    result.listed = all_listed;
    // One candidate stands for all before the border: what they share is checked with it.
    if (!plans.empty()) static_cast<void>(resolve(plans.front(), request.folder));
    Programs programs;
    forecast_all(request, plans, {known, cluster, programs}, begin, result);
    if (nodes) {
      const auto first = result.left_out.begin();
      result.left_out.insert(
          first, {nodes->devices, nodes->divisibility, nodes->software, nodes->schedule});
    }
    std::erase_if(result.left_out, [](const LeftOut& left_out) { return left_out.count == 0; });
  }
  if (request.baseline) result.baseline = placed(request, result.plans, costs, cluster);
  result.threads = static_cast<int>(
      tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace weir
