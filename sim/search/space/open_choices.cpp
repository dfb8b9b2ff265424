// Lists the choices that nobody made.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space/open_choices.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "plan/schedule/generators/generators.hpp"

namespace weir {
namespace {

// Ascending: divisors of the devices, and powers of two where not all need be used.
std::vector<int> degrees(const SweepRequest& request) {
  const int devices = request.devices.value_or(1);
  std::vector<int> all;
  for (int n = 1; n <= devices; ++n) {
    const bool power = !request.exact_devices && (n & (n - 1)) == 0;
    if (devices % n == 0 || power) all.push_back(n);
  }
  return all;
}

template <class T>
void add(std::vector<T>& list, const T& value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(value);
}

template <class T>
void open(std::vector<T>& list, const std::vector<T>& choices, const std::optional<T>& baseline) {
  if (!list.empty()) return;
  list = choices;
  if (baseline) add(list, *baseline);
}

// Those that divide the vocabulary no software runs that is known to have all.
std::vector<std::string> schedules_of(const SweepRequest& request) {
  if (!request.within->schedules.empty()) return request.within->schedules;
  std::vector<std::string> names;
  for (const Generator& generator : generators()) names.emplace_back(generator.name);
  if (!request.any_schedule) return names;
  for (const Generator& generator : vocabulary_generators()) names.emplace_back(generator.name);
  return names;
}

// Of pipelines or of one rank.
std::vector<int> zero_stages_of(const StackAbilities& stack) {
  std::vector<int> stages;
  for (const int stage : {0, 1, 2, 3}) {
    const auto in = [stage](const std::vector<int>& list) {
      return list.empty() || std::ranges::find(list, stage) != list.end();
    };
    if (in(stack.zero) || in(stack.zero_without_pipeline)) stages.push_back(stage);
  }
  return stages;
}

std::vector<Recompute> recomputes_of(const StackAbilities& stack) {
  std::vector<Recompute> all;
  for (const RecomputeMode mode :
       {RecomputeMode::none, RecomputeMode::selective, RecomputeMode::full, RecomputeMode::stage}) {
    const auto& its = stack.recompute;
    if (its.empty() || std::ranges::find(its, mode) != its.end()) all.push_back({.mode = mode});
  }
  return all;
}

// What was named, and what the plan in use has, the search does whether the stack has it or not.
StackAbilities allowed(const SweepRequest& request, StackAbilities stack) {
  if (!request.schedules.empty()) stack.schedules.clear();
  if (!request.microbatches.empty()) stack.whole_rounds = false;
  if (!request.zero.empty()) {
    stack.zero.clear();
    stack.zero_without_pipeline.clear();
  }
  if (!request.recompute.empty()) stack.recompute.clear();
  if (!request.cp.empty()) stack.context_parallel = true;
  if (request.base.overlap_grad_reduce) stack.overlap_grad_reduce = true;
  if (!request.offload_optimizer.empty()) stack.offload_optimizer = true;
  if (!request.offload_activations.empty()) stack.offload_activations = true;
  if (request.dynamic_cp > 0) stack.dynamic_cp = true;
  const auto also = [](auto& list, const auto& value) {
    if (!list.empty() && std::ranges::find(list, value) == list.end()) list.push_back(value);
  };
  for (const RankOrder order : request.rank_order) also(stack.rank_orders, order);
  if (!request.baseline) return stack;
  const Plan& plan = request.baseline->plan;
  also(stack.schedules, plan.schedule);
  also(plan.pp > 1 ? stack.zero : stack.zero_without_pipeline, plan.zero);
  also(stack.recompute, plan.recompute.mode);
  also(stack.rank_orders, plan.rank_order);
  if (plan.cp > 1) stack.context_parallel = true;
  return stack;
}

// Whole sequences alone, unless a schedule that slices them was named: no trainer that plans are
// exported to does it.
std::vector<int> slices_for(const SweepRequest& request, const Model& model) {
  const bool named = std::ranges::any_of(request.schedules, [](const std::string& name) {
    const Generator* generator = find_generator(name);
    return generator != nullptr && generator->default_slices > 1;
  });
  std::vector<int> all{1};
  for (const int slices : {2, 4, 8}) {
    if (named && !cannot_split(model, request.base.seq_length, {.slices = slices}))
      all.push_back(slices);
  }
  return all;
}

// Every rank has as many of these, or one less.
int blocks_of(const Model& model) {
  const auto blocks = std::ranges::count_if(model.layers, [](const Layer& layer) {
    return std::holds_alternative<TransformerShape>(layer.shape);
  });
  return static_cast<int>(blocks > 0 ? blocks : std::ssize(model.layers));
}

}  // namespace

SweepRequest with_open_choices(SweepRequest request, const Model& model, const Cluster& cluster) {
  request.open_schedules = request.open_schedules || request.schedules.empty();
  if (!request.within) request.within = allowed(request, request.software);
  const bool open_degrees =
      request.pp.empty() || request.tp.empty() || request.cp.empty() || request.dp.empty();
  if (open_degrees && !request.devices) request.devices = cluster.devices();
  const auto baseline = [&](auto member) {
    using Value = std::decay_t<decltype(std::declval<Plan>().*member)>;
    return request.baseline ? std::optional<Value>(request.baseline->plan.*member) : std::nullopt;
  };
  const std::vector<int> all = degrees(request);
  const auto those = [&](auto can_be) {
    std::vector<int> some;
    std::ranges::copy_if(all, std::back_inserter(some), can_be);
    return some;
  };
  const auto splits = [&](int tp, int cp) {
    return !cannot_split(model, request.base.seq_length, {tp, cp, false});
  };
  const auto layers = static_cast<int>(model.layers.size());
  if (request.tp.empty()) request.sequence_parallel_where_it_can = true;
  open(request.pp, those([&](int k) { return k <= layers; }), baseline(&Plan::pp));
  // A tensor-parallel group exchanges in every layer, so it stays within a node.
  open(request.tp, those([&](int tp) { return tp <= cluster.devices_per_node && splits(tp, 1); }),
       baseline(&Plan::tp));
  const bool divides = request.within->context_parallel;
  open(request.cp, those([&](int cp) { return (cp == 1 || divides) && splits(1, cp); }),
       baseline(&Plan::cp));
  open(request.dp, all, baseline(&Plan::dp));
  // Without experts there is nothing to share: 1 alone.
  open(request.ep,
       those([&](int ep) { return !cannot_split(model, request.base.seq_length, {.ep = ep}); }),
       baseline(&Plan::ep));
  // Megatron's two habits: all of tp divide each expert, or none do.
  open(request.etp, has_experts(model) ? std::vector{0, 1} : std::vector{0}, baseline(&Plan::etp));
  open(request.slices, slices_for(request, model), baseline(&Plan::slices));
  open(request.zero, zero_stages_of(*request.within), baseline(&Plan::zero));
  open(request.schedules, schedules_of(request), baseline(&Plan::schedule));
  open(request.recompute, recomputes_of(*request.within), baseline(&Plan::recompute));
  return request;
}

std::vector<int> chunks(const SweepRequest& request, const Model& model, int ranks) {
  if (!request.vpp.empty()) return request.vpp;
  if (ranks == 1) return {1};
  const auto layers = static_cast<int>(model.layers.size());
  const int each = (blocks_of(model) + ranks - 1) / ranks;
  // Bubbles shrink with 1 / v, messages grow with v: of 1,000 and 4,000 layers on 64 devices the
  // best that an unbounded search found had 25 and 40 to 50.
  constexpr int kMostOpen = 64;
  std::vector<int> found{1};
  for (int v = 2; v * ranks <= layers; ++v) {
    const auto& baseline = request.baseline;
    const bool in_use = baseline && baseline->plan.pp == ranks && baseline->plan.vpp == v;
    const bool even = each % v == 0 && v <= kMostOpen;
    if (v == 2 || even || in_use) found.push_back(v);
  }
  return found;
}

std::vector<std::size_t> schedules_for(const SweepRequest& request, int ranks) {
  std::vector<std::size_t> indices(request.schedules.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  // With one rank they differ in nothing but what they keep, of which 1f1b keeps least.
  const auto one = std::ranges::find(request.schedules, "1f1b");
  const bool open = request.open_schedules || request.schedules.size() >= generators().size();
  if (ranks > 1 || !open || one == request.schedules.end()) return indices;
  return {static_cast<std::size_t>(one - request.schedules.begin())};
}

}  // namespace weir
