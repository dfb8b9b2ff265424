// What devices that share experts send each other where no token travels twice the same way
// (DeepEP): on how many of them its experts are, and how long it takes to reach them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/job/cluster.hpp"
#include "plan/model/layer_shape.hpp"
#include "plan/words/units.hpp"

namespace weir {

// On how many of `places`, devices or nodes, a token's experts are, in the mean, where routing is
// even: E experts lie side by side, as many on each of P places, and k are drawn. A place is missed
// by all k with probability C(E - E / P, k) / C(E, k). With groups (DeepSeek-V3, arXiv 2412.19437,
// section 2.1.2: routing limited to nodes) g of G groups are drawn first and the k experts out of
// these; a place then has whole groups, or a part of one. Groups that fit neither way count as
// none.
[[nodiscard]] double places_visited(const TransformerShape& block, int places);

// n bytes, all copies of a device's tokens, among p devices, m of them in each of N nodes. A token
// of k copies crosses once to each of v nodes that it visits, and within a node travels once to
// each of its devices: of w devices in all (m - 1) / m w / k of n over the node's own links, and
// beside it v (N - 1) / (N k) of n through each device's adapter; the slower counts, with m - 1 and
// N - 1 latencies. Precondition: p is a multiple of m.
struct TokenSpread {
  double copies = 1;   // k, experts a token
  double devices = 1;  // w
  double nodes = 1;    // v
};
[[nodiscard]] Seconds exchange_sent_once(Bytes n, int p, const TokenSpread& spread,
                                         const Link& link);

}  // namespace weir
