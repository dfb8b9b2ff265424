// What devices that share experts send each other: where a token's experts are, and how long its
// copies take to reach them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/job/cluster.hpp"
#include "plan/model/layer_shape.hpp"
#include "plan/words/units.hpp"

namespace weir {

// On how many of `nodes` a token's experts are, in the mean, where routing is even: E experts lie
// side by side, as many on each node, and k are drawn. A node is missed by all k with probability
// C(E - E / N, k) / C(E, k). With groups (DeepSeek-V3, arXiv 2412.19437, section 2.1.2: routing
// limited to nodes) g of G groups are drawn first and the k experts out of these; a node then has
// whole groups, or a part of one. Groups that fit neither way count as none.
[[nodiscard]] double nodes_visited(const TransformerShape& block, int nodes);

// An exchange of n bytes, all copies of a device's tokens, among p devices, m of them in each node,
// where a token crosses once to each of v nodes that it visits and is handed on within (DeepEP):
// (m - 1) alpha + (m - 1) / m n beta within a node, and beside it (N - 1) alpha +
// v (N - 1) / (N k) n beta through each device's own adapter; the slower counts. Precondition: p is a
// multiple of m.
struct NodeExchange {
  int members = 1;    // p
  double visited = 1; // v, nodes_visited
  double copies = 1;  // k, experts a token
};
[[nodiscard]] Seconds exchange_once_a_node(Bytes n, const NodeExchange& exchange,
                                           const NodeLevel& node);

}  // namespace weir
