// Counts devices through the pools of a cluster.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "plan/words/error.hpp"

namespace weir {
namespace {

// A cluster of one kind is as large as a plan needs it to be.
void require_devices(const Cluster& pool, std::int64_t needed) {
  if (needed <= pool.devices()) return;
  throw InputError(pool.name, "nodes",
                   fmt::format("{} devices are needed there, it has {} x {} = {}", needed,
                               pool.nodes, pool.devices_per_node, pool.devices()));
}

}  // namespace

std::int64_t first_device(const Plan& plan, Rank rank) {
  const bool ranks_first = plan.rank_order == RankOrder::tp_cp_pp_dp;
  return std::int64_t{rank.value} * (ranks_first ? plan.tp * plan.cp : plan.devices_per_rank());
}

Placement::Placement(const Plan& plan, const Cluster& cluster)
    : cluster_(cluster),
      kinds_(static_cast<std::size_t>(plan.pp)),
      first_(static_cast<std::size_t>(plan.pp)),
      devices_(static_cast<std::size_t>(cluster.kinds()), 0) {
  if (plan.placement.empty()) {
    fill_in_order(plan);
  } else {
    follow(plan);
  }
}

Placement::Place Placement::place_of(std::int64_t device) const {
  int kind = 0;
  for (; kind + 1 < cluster_.kinds() && device >= cluster_.kind(kind).devices(); ++kind)
    device -= cluster_.kind(kind).devices();
  return {kind, device};
}

void Placement::fill_in_order(const Plan& plan) {
  if (!cluster_.pools.empty() && plan.devices() > cluster_.devices()) {
    throw InputError(
        cluster_.name, "pools",
        fmt::format("{} devices are needed, they have {}", plan.devices(), cluster_.devices()));
  }
  const bool ranks_first = plan.rank_order == RankOrder::tp_cp_pp_dp;
  // A rank's devices: one run of numbers, or one in each replica.
  const std::int64_t run = ranks_first ? plan.tp * plan.cp : plan.devices_per_rank();
  const std::int64_t runs = ranks_first ? plan.dp : 1;
  for (int rank = 0; rank < plan.pp; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    first_[at] = place_of(first_device(plan, Rank{rank}));
    for (std::int64_t r = 0; r < runs; ++r) {
      // With replicas apart a replica's ranks come first, so that this rank's next run is K runs
      // on.
      const std::int64_t first = first_device(plan, Rank{rank}) + r * run * plan.pp;
      for (int kind = place_of(first).kind; kind <= place_of(first + run - 1).kind; ++kind)
        kinds_[at].push_back(kind);
    }
    std::ranges::sort(kinds_[at]);
    kinds_[at].erase(std::unique(kinds_[at].begin(), kinds_[at].end()), kinds_[at].end());
  }
  // The pools before the last one that is reached are full.
  std::int64_t left = plan.devices();
  for (int kind = 0; kind < cluster_.kinds(); ++kind) {
    const bool last = kind + 1 == cluster_.kinds();
    const std::int64_t here =
        last ? left : std::min<std::int64_t>(left, cluster_.kind(kind).devices());
    devices_[static_cast<std::size_t>(kind)] = here;
    left -= here;
  }
}

void Placement::follow(const Plan& plan) {
  std::int64_t ranks = 0;
  for (const PlacedRanks& placed : plan.placement) ranks += placed.ranks;
  if (ranks != plan.pp) {
    throw InputError("plan", "placement",
                     fmt::format("places {} ranks; expected all {}", ranks, plan.pp));
  }
  std::size_t rank = 0;
  for (const PlacedRanks& placed : plan.placement) {
    int kind = 0;
    while (kind < cluster_.kinds() && cluster_.kind(kind).name != placed.pool) ++kind;
    if (kind == cluster_.kinds()) {
      throw InputError("plan", "placement",
                       fmt::format("{} is no pool of {}", placed.pool, cluster_.name));
    }
    std::int64_t& used = devices_[static_cast<std::size_t>(kind)];
    for (int r = 0; r < placed.ranks; ++r, ++rank) {
      kinds_[rank] = {kind};
      first_[rank] = {kind, used};
      used += plan.devices_per_rank();
    }
    if (!cluster_.pools.empty()) require_devices(cluster_.kind(kind), used);
  }
}

Link Placement::link(Rank from, Rank to) const {
  // The first devices of a rank stand for all of them.
  const Place &a = first_[from.position()], &b = first_[to.position()];
  const Cluster& nodes = cluster_.kind(a.kind);
  // It leaves one kind's nodes and reaches the other's, so the slower of both decides.
  if (a.kind != b.kind) return slower(nodes.inter, cluster_.kind(b.kind).inter);
  const bool one_node = a.device / nodes.devices_per_node == b.device / nodes.devices_per_node;
  return one_node ? nodes.intra : nodes.inter;
}

std::int64_t Placement::node(Rank rank) const {
  const Place& place = first_[rank.position()];
  std::int64_t before = 0;
  for (int kind = 0; kind < place.kind; ++kind) before += cluster_.kind(kind).nodes;
  return before + place.device / cluster_.kind(place.kind).devices_per_node;
}

std::vector<PlacedNode> Placement::nodes(const Plan& plan) const {
  const bool ranks_first = plan.rank_order == RankOrder::tp_cp_pp_dp;
  const std::int64_t run = ranks_first ? plan.tp * plan.cp : plan.devices_per_rank();
  std::map<std::pair<int, std::int64_t>, std::vector<Rank>> found;
  for (int rank = 0; rank < plan.pp; ++rank) {
    const Place& first = first_[static_cast<std::size_t>(rank)];
    for (std::int64_t i = 0; i < plan.devices_per_rank(); ++i) {
      // Where ranks were given places their devices are side by side; else they come in runs, as
      // fill_in_order() counts them.
      const std::int64_t number =
          first_device(plan, Rank{rank}) + i / run * run * plan.pp + i % run;
      const Place place =
          plan.placement.empty() ? place_of(number) : Place{first.kind, first.device + i};
      const std::int64_t node = place.device / cluster_.kind(place.kind).devices_per_node;
      found[{place.kind, node}].push_back(Rank{rank});
    }
  }
  std::vector<PlacedNode> nodes;
  for (auto& [place, ranks] : found) nodes.push_back({place.first, std::move(ranks)});
  return nodes;
}

}  // namespace weir
