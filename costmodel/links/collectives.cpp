// The times of collectives in the alpha-beta model (docs/theory.md 6.2).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/links/collectives.hpp"

#include <algorithm>
#include <bit>

namespace weir {
namespace {

// ceil(lg p)
int rounds(int p) { return std::bit_width(static_cast<unsigned>(p - 1)); }
Seconds wire(Bytes n, const Link& link) {
  return link.bandwidth.count() > 0 ? n / link.bandwidth : Seconds(0);
}
// (p - 1) / p of n bytes: all but a member's own share.
Seconds others_share(Bytes n, int p, const Link& link) { return wire(n, link) * (p - 1.0) / p; }

}  // namespace

Seconds point_to_point(Bytes n, const Link& link) { return link.latency + wire(n, link); }

Seconds ring_all_gather(Bytes n, int p, const Link& link) {
  return link.latency * (p - 1.0) + others_share(n, p, link);
}

Seconds ring_reduce_scatter(Bytes n, int p, const Link& link) {
  return link.latency * (p - 1.0) + others_share(n, p, link);
}

Seconds ring_all_reduce(Bytes n, int p, const Link& link) {
  return 2.0 * (link.latency * (p - 1.0) + others_share(n, p, link));
}

Seconds double_tree_all_reduce(Bytes n, int p, const Link& link) {
  if (p == 1) return Seconds(0);
  return 2.0 * (link.latency * static_cast<double>(rounds(p)) + wire(n, link));
}

Seconds scatter_gather_send(Bytes n, int t, const Link& across, const Link& within) {
  return across.latency + wire(n, across) / t + ring_all_gather(n, t, within);
}

Seconds switch_all_reduce(Bytes n, int p, const SwitchReduction& reduction) {
  if (p == 1) return Seconds(0);
  return reduction.latency + n / reduction.bandwidth * (2.0 * (p - 1.0) / p);
}

Seconds two_level_all_reduce(Bytes n, int p, const NodeLevel& node) {
  Link within, across;
  within.latency = node.latency;
  within.bandwidth = node.bandwidth;
  across.latency = node.across_latency;
  across.bandwidth = node.across_bandwidth;
  const Bytes part(n.count() / node.members);
  return ring_reduce_scatter(n, node.members, within) * 2.0 +
         ring_all_reduce(part, p / node.members, across);
}

Seconds tree_of_nodes_all_reduce(Bytes n, int p, const NodeLevel& node) {
  const double chain = node.members - 1.0, levels = rounds(p / node.members);
  const BytesPerSecond rate(
      std::min(node.bandwidth.count(), node.across_bandwidth.count() * node.members));
  return 2.0 * (node.latency * chain + node.across_tree * levels + n / rate);
}

Seconds all_to_all(Bytes n, int p, const Link& link) {
  if (p == 1) return Seconds(0);
  if (!link.node) return link.latency * (p - 1.0) + others_share(n, p, link);
  const NodeLevel& node = *link.node;
  const double within = node.members - 1.0, across = p - node.members;
  const auto part = [&](double members, Seconds latency, BytesPerSecond rate) {
    return latency * members + n / rate * (members / p);
  };
  return std::max(part(within, node.latency, node.bandwidth),
                  part(across, node.across_latency, node.across_bandwidth));
}

Seconds all_reduce(Bytes n, int p, const Link& link) {
  const auto& reduction = link.switch_reduction;
  if (reduction && p >= reduction->members) return switch_all_reduce(n, p, *reduction);
  if (link.node && p % link.node->members == 0) {
    const NodeLevel& node = *link.node;
    const Seconds rings = std::min(ring_all_reduce(n, p, link), two_level_all_reduce(n, p, node));
    if (node.across_tree.count() == 0) return rings;
    return std::min(rings, tree_of_nodes_all_reduce(n, p, node));
  }
  return std::min(ring_all_reduce(n, p, link), double_tree_all_reduce(n, p, link));
}

}  // namespace weir
