// Looks shapes, boundaries and bytes up, and estimates steps.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/examine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <utility>

#include "costmodel/links/expert_overlap.hpp"
#include "costmodel/table/backward_halves.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/words/names.hpp"
#include "sim/parallel.hpp"
#include "sim/search/partitions/balance.hpp"
#include "sim/search/partitions/pool_partition.hpp"
#include "sim/search/space/legality.hpp"

namespace weir {
namespace {

constexpr Names<Examined::Verdict, 3> kVerdicts{{{Examined::Verdict::possible, "possible"},
                                                 {Examined::Verdict::schedule, "schedule"},
                                                 {Examined::Verdict::memory, "memory"}}};

// A job's stages and their bytes: the same for all schedules with as many copies of them.
struct Held {
  std::vector<StagePart> parts;
  std::vector<StageHeld> bytes;
};

// How long a step takes where no rank waits but for the first micro-batch to reach it, and for the
// last to go back: near the truth for most schedules, a bound for none.
double estimate(const CostTable& table, const ShapeFacts& facts, int microbatches) {
  const ScheduleShape& shape = facts.shape;
  const auto ns = [](Nanoseconds time) { return static_cast<double>(time.count()); };
  struct RankWork {
    double head = std::numeric_limits<double>::max(), tail = head, busy = 0, once = 0;
  };
  std::vector<RankWork> ranks(static_cast<std::size_t>(shape.ranks));
  // Copies of the stages share the micro-batches, and each slice is a pass of its own.
  const double each = static_cast<double>(microbatches) * shape.segments / shape.replicas;
  double head = 0, tail = 0;
  for (std::int32_t s = 0; s < shape.total_stages(); ++s) {
    const StageCost& cost = table.stages[static_cast<std::size_t>(s)];
    // The chain of a copy begins anew.
    if (shape.is_first(Stage{s})) head = tail = 0;
    RankWork& rank = ranks[shape.rank_of(Stage{s}).position()];
    rank.head = std::min(rank.head, head);
    rank.tail = std::min(rank.tail, tail);
    const double backward = facts.splits_backward ? ns(cost.i) + ns(cost.w) : ns(cost.b);
    rank.busy += each * (ns(cost.f) + backward + 2 * ns(table.host_overhead));
    rank.once += ns(cost.reduce) + ns(cost.optimizer);
    const MessageCost& message = table.forward_messages[static_cast<std::size_t>(s)];
    head += ns(cost.f) + ns(message.occupancy) + ns(message.latency);
    tail +=
        ns(facts.splits_backward ? cost.i : cost.b) + ns(message.occupancy) + ns(message.latency);
  }
  double longest = 0;
  for (const RankWork& rank : ranks)
    longest = std::max(longest, rank.head + rank.busy + std::max(rank.once, rank.tail));
  return longest;
}

}  // namespace

void Shapes::add(const std::vector<Key>& keys) {
  std::vector<FactsOrReason*> fresh;
  std::vector<Key> of;
  for (const Key& key : keys) {
    const auto [at, is_new] = known_.try_emplace(key);
    if (!is_new) continue;
    fresh.push_back(&at->second);
    of.push_back(key);
  }
  // Keys are all there, and places in a map do not move: each thread fills its own.
  in_parallel(fresh.size(), [&](std::size_t i) { *fresh[i] = made(of[i]); });
}

std::variant<int, std::string> Shapes::slots(const Plan& plan, Programs& programs) const {
  if (plan.slots == 0) return 0;
  const int needed = programs.of(plan)->slots(plan.slots);
  if (needed <= plan.slots || !request_.exact_slots) return needed;
  return fmt::format("{} deadlocks with {} receive slots; {} are enough", plan.schedule, plan.slots,
                     needed);
}

Shapes::FactsOrReason Shapes::made(const Key& key) const {
  const auto& [name, k, v, m, slices] = key;
  auto schedule = make_schedule(request_.schedules[name], {k, v, m, slices});
  if (auto* reason = std::get_if<std::string>(&schedule)) return std::move(*reason);
  const Schedule& its = std::get<Schedule>(schedule);
  const bool splits = std::ranges::any_of(its.order, [](const auto& order) {
    return std::ranges::any_of(order, [](const Action& a) { return a.kind == ActionKind::I; });
  });
  return ShapeFacts{its.shape, peak_in_flight(its), splits};
}

std::vector<int> Boundaries::of(Plan plan, const ScheduleShape& shape) {
  std::vector<int> on_pools;  // all that the memory of unlike ranks follows from
  if (cluster_.kinds() > 1) {
    const Recompute& again = plan.recompute;
    on_pools = {plan.microbatches, static_cast<int>(again.mode), again.at_a_time, shape.replicas};
    for (std::int32_t s = 0; s < std::min(shape.stages, 2 * shape.ranks); ++s)
      on_pools.push_back(shape.rank_of(Stage{s}).value);
  } else {
    plan.recompute = {};  // stages are evened out without it, as for all candidates
  }
  const Key key{divides_vocabulary(plan.schedule),  // the same over pp ranks
                plan.tp,
                plan.cp,
                plan.dp,
                plan.ep,
                plan.etp,
                plan.slices,
                plan.sequence_parallel,
                plan.zero,
                plan.zero_shards,
                plan.pp,
                plan.vpp,
                plan.micro_batch_size,
                plan.overlap_experts && !why_experts_wait(plan) ? plan.microbatches : 0,
                plan.rank_order,
                plan.cuda_graphs,
                plan.offload_optimizer,
                plan.offload_activations,
                plan.placement,
                on_pools};
  {
    const std::scoped_lock lock(mutex_);  // guards found_, which all threads share
    const auto found = found_.find(key);
    if (found != found_.end()) return found->second;
  }
  const LayerCosts& costs = known_.of(plan);
  std::vector<int> boundaries = on_pools.empty()
                                    ? Balance(costs, cluster_).boundaries(plan)
                                    : pool_boundaries(pool_problem(plan, costs, cluster_, shape));
  // Another thread may have found the same meanwhile; what is there stays.
  const std::scoped_lock lock(mutex_);
  return found_.try_emplace(key, std::move(boundaries)).first->second;
}

// Boundaries and costs are the same for all of them.
std::vector<Examined> Examiner::examine_alike(Alike alike) {
  std::vector<Examined> all;
  // Too much whatever the schedule: so none is made.
  if (const Bytes least = least_held(nodes_.all[alike.front()]); too_large(least)) {
    for (const std::uint32_t n : alike) {
      all.push_back(
          {.node = n, .verdict = Examined::Verdict::memory, .unshaped = true, .memory = least});
    }
    return all;
  }
  Plan plan = nodes_.plan(nodes_.all[alike.front()], request_);
  const LayerCosts& costs = known_.of(plan);
  std::optional<StageCosts> prices;
  std::map<std::pair<std::int32_t, std::vector<int>>, Held> held;  // by copies of the stages
  for (const std::uint32_t n : alike) {
    const Node& node = nodes_.all[n];
    Examined& now = all.emplace_back(Examined{.node = n});
    const auto& made = shapes_.of(shape(node));
    if (const auto* reason = std::get_if<std::string>(&made)) {
      now.verdict = Examined::Verdict::schedule;
      now.reason = *reason;
      continue;
    }
    const auto& facts = std::get<ShapeFacts>(made);
    if (facts.splits_backward) {
      if (const auto unknown = unknown_halves(costs)) {
        now.verdict = Examined::Verdict::schedule;
        now.reason = *unknown;
        continue;
      }
    }
    if (held.empty() || cluster_.kinds() > 1) plan.boundaries = boundaries_.of(plan, facts.shape);
    const auto [at, fresh] = held.try_emplace({facts.shape.replicas, plan.boundaries});
    Held& stages = at->second;
    if (fresh) {
      stages.parts = stage_parts(*costs.part(), plan.boundaries, facts.shape);
      stages.bytes = stages_held(plan, costs, stages.parts, cluster_);
    }
    // Of whole rows, which a device that follows sequences' lengths does not hold.
    const bool of_rows = plan.lengths.dynamic_cp == 0;
    now.memory = of_rows ? memory_bound(stages.bytes, facts, device_) : least_held(node);
    if (too_large(now.memory)) {
      now.verdict = Examined::Verdict::memory;
      continue;
    }
    // Only now, since what does not fit needs no prices.
    if (!prices) prices.emplace(plan, costs, cluster_);
    const auto ties = ties_of(*costs.part(), stages.parts, facts.shape);
    now.estimate_ns =
        estimate(prices->table(facts.shape, stages.parts, ties), facts, plan.microbatches);
  }
  return all;
}

Plan Examiner::plan(std::uint32_t node) {
  Plan plan = nodes_.plan(nodes_.all[node], request_);
  const Shapes::Key key = shape(nodes_.all[node]);
  shapes_.add({key});
  plan.boundaries = boundaries_.of(plan, std::get<ShapeFacts>(shapes_.of(key)).shape);
  return plan;
}

std::optional<std::string> Examiner::no_schedule(std::uint32_t node) {
  const Shapes::Key key = shape(nodes_.all[node]);
  shapes_.add({key});
  const auto* reason = std::get_if<std::string>(&shapes_.of(key));
  return reason == nullptr ? std::nullopt : std::optional(*reason);
}

// Schedules cost most, and each is made by one process: groups of one K, v and M go to the same,
// the largest to who has least to do so far.
std::vector<std::size_t> Examiner::shares(const std::vector<Alike>& groups) const {
  std::vector<std::size_t> shares(groups.size(), 0);
  if (!request_.party) return shares;
  using Size = std::tuple<int, int, int>;
  const auto size_of = [this](Alike alike) {
    const Node& node = nodes_.all[alike.front()];
    const Plan& job = nodes_.jobs[node.job];
    return Size{node.ranks, node.chunks, job.microbatches * job.slices};
  };
  std::map<Size, std::vector<std::size_t>> by_size;
  for (std::size_t g = 0; g < groups.size(); ++g) by_size[size_of(groups[g])].push_back(g);
  struct Load {
    double work = 0;
    const std::vector<std::size_t>* groups = nullptr;
  };
  std::vector<Load> loads;
  for (const auto& [size, members] : by_size) {
    const auto& [k, v, m] = size;
    // Making a schedule takes as long as it has actions.
    loads.push_back({static_cast<double>(k) * v * m, &members});
  }
  std::ranges::stable_sort(loads, std::ranges::greater{}, &Load::work);
  std::vector<double> busy(at(request_.party->count), 0);
  for (const Load& load : loads) {
    const auto least = std::ranges::min_element(busy);
    *least += load.work;
    for (const std::size_t g : *load.groups) shares[g] = at(least - busy.begin());
  }
  return shares;
}

void Examiner::exchange(const std::vector<Alike>& groups, const std::vector<std::size_t>& shares,
                        std::vector<std::vector<Examined>>& found) const {
  const std::size_t mine = at(request_.party->index);
  Json own = Json::array();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (shares[g] != mine) continue;
    for (const Examined& one : found[g]) {
      own.push_back({name_of(kVerdicts, one.verdict), one.unshaped, one.reason, one.memory.count(),
                     one.estimate_ns});
    }
  }
  std::vector<Json> all;
  for (const std::string& text : request_.party->exchange(own.dump()))
    all.push_back(Json::parse(text));
  // All processes have the groups in one order, so their answers come in it without names.
  std::vector<std::size_t> next(all.size(), 0);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::size_t whose = shares[g];
    if (whose == mine) continue;
    for (const std::uint32_t node : groups[g]) {
      const Json& json = all[whose].at(next[whose]++);
      const auto verdict = named(kVerdicts, json[0].get<std::string>());
      found[g].push_back({.node = node,
                          .verdict = verdict.value(),
                          .unshaped = json[1],
                          .reason = json[2],
                          .memory = Bytes(json[3].get<std::int64_t>()),
                          .estimate_ns = json[4]});
    }
  }
}

std::vector<Examined> Examiner::examine(std::span<const std::uint32_t> nodes) {
  // With shards beside them stages have other layers.
  using Stages = std::tuple<std::uint32_t, int, int, std::uint32_t, bool>;
  std::map<Stages, std::vector<std::uint32_t>> by_stages;
  for (const std::uint32_t n : nodes) {
    const Node& node = nodes_.all[n];
    const bool divided = divides_vocabulary(request_.schedules[node.schedule]);
    by_stages[{node.job, node.ranks, node.chunks, node.placement, divided}].push_back(n);
  }
  std::vector<Alike> groups;
  for (const auto& [stages, members] : by_stages) groups.emplace_back(members);
  const std::vector<std::size_t> whose = shares(groups);
  const std::size_t self = request_.party ? at(request_.party->index) : 0;
  // All schedules first and side by side, since many groups share them.
  std::vector<Shapes::Key> keys;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (whose[g] != self || too_large(least_held(nodes_.all[groups[g].front()]))) continue;
    for (const std::uint32_t n : groups[g]) keys.push_back(shape(nodes_.all[n]));
  }
  shapes_.add(keys);
  std::vector<std::vector<Examined>> by_group(groups.size());
  in_parallel(groups.size(), [&](std::size_t g) {
    if (whose[g] == self) by_group[g] = examine_alike(groups[g]);
  });
  if (request_.party) exchange(groups, whose, by_group);
  std::vector<Examined> all;
  for (auto& group : by_group) std::ranges::move(group, std::back_inserter(all));
  return all;
}

}  // namespace weir
