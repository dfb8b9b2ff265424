// Lists the choices that nobody made.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/open_choices.hpp"

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

std::vector<std::string> all_schedules() {
  std::vector<std::string> names;
  for (const Generator& generator : generators()) names.emplace_back(generator.name);
  return names;
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
  open(request.tp, those([&](int tp) { return tp <= cluster.devices_per_node && splits(tp, 1); }),
       baseline(&Plan::tp));
  open(request.cp, those([&](int cp) { return splits(1, cp); }), baseline(&Plan::cp));
  open(request.dp, all, baseline(&Plan::dp));
  // Without experts there is nothing to share: 1 alone.
  open(request.ep,
       those([&](int ep) { return !cannot_split(model, request.base.seq_length, {.ep = ep}); }),
       baseline(&Plan::ep));
  // Megatron's two habits: all of tp divide each expert, or none do.
  open(request.etp, has_experts(model) ? std::vector{0, 1} : std::vector{0}, baseline(&Plan::etp));
  open(request.slices, slices_for(request, model), baseline(&Plan::slices));
  open(request.zero, {0, 1, 2, 3}, baseline(&Plan::zero));
  open(request.schedules, all_schedules(), baseline(&Plan::schedule));
  open(request.recompute,
       {{},
        {.mode = RecomputeMode::selective},
        {.mode = RecomputeMode::full},
        {.mode = RecomputeMode::stage}},
       baseline(&Plan::recompute));
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
  const bool all = request.schedules.size() >= generators().size();
  if (ranks > 1 || !all || one == request.schedules.end()) return indices;
  return {static_cast<std::size_t>(one - request.schedules.begin())};
}

}  // namespace weir
