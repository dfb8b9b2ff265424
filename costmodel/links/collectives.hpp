// Time of messages and collectives in the alpha-beta model (Hockney, Parallel Computing 20(3),
// 1994): a message of n bytes takes alpha + n beta, with alpha the link's latency and beta one over
// its bandwidth; links work both ways at once, a device sends one message at a time, and what
// adding numbers takes is left out. Legend: p members, n bytes, lg the logarithm to base 2, rounded
// up where p is no power of two. One member needs no communication: 0.
//
// [T] is Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in
// MPICH", IJHPCA 19(1), 2005, whose names of the formulas are kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/job/cluster.hpp"
#include "plan/words/units.hpp"

namespace weir {

// Hockney: alpha + n beta.
[[nodiscard]] Seconds point_to_point(Bytes n, const Link& link);

// [T], allgather, T_ring: (p - 1) alpha + (p - 1) / p n beta; n: the gathered whole.
[[nodiscard]] Seconds ring_all_gather(Bytes n, int p, const Link& link);

// [T], reduce-scatter, T_long: (p - 1) alpha + (p - 1) / p n beta; n: what each member brings.
[[nodiscard]] Seconds ring_reduce_scatter(Bytes n, int p, const Link& link);

// Patarasuk and Yuan, JPDC 69(2), 2009, section 4 (a ring's reduce-scatter, then its all-gather): 2
// (p - 1) alpha + 2 (p - 1) / p n beta. The volume is the least possible; nccl-tests calls n over
// the time algbw.
[[nodiscard]] Seconds ring_all_reduce(Bytes n, int p, const Link& link);

// NCCL's double binary trees (since 2.4): two trees over the same members, each for half of the
// message, where whoever has children in one is a leaf of the other. Pipelined, a member sends and
// receives n bytes on the way up and n on the way down, and the first piece passes lg p members
// each way: 2 lg p alpha + 2 n beta.
[[nodiscard]] Seconds double_tree_all_reduce(Bytes n, int p, const Link& link);

// Narayanan et al., SC 2021, section 4.1: the t ranks of a tensor-parallel group hold the same n
// bytes; each sends one t-th across `across` to its peer, and the peers gather the whole over
// `within`: alpha_a + n / t beta_a + ring_all_gather(n, t, within).
[[nodiscard]] Seconds scatter_gather_send(Bytes n, int t, const Link& across, const Link& within);

// NVLink SHARP: each device sends its n bytes to the switch, which adds them up, and gets n back.
// Bandwidth as nccl-tests counts it for an all-reduce (busbw): latency + 2 (p - 1) / p n beta.
[[nodiscard]] Seconds switch_all_reduce(Bytes n, int p, const SwitchReduction& reduction);

// Jia et al., "Highly scalable deep learning training system with mixed-precision" (2018), section
// 3.3, three phases: with m members in each of N nodes, the node reduce-scatters, each member
// all-reduces its m-th by a ring across nodes through its own adapter, and the node gathers:
// 2 ring_reduce_scatter(n, m, within) + ring_all_reduce(n / m, N, across). Precondition: p is m
// times N.
[[nodiscard]] Seconds two_level_all_reduce(Bytes n, int p, const NodeLevel& node);

// NCCL's double binary trees over N nodes of m members each: a node's members form a chain, of
// which one has the link up, and each level of the trees takes `across_tree`: 2 ((m - 1) alpha + lg
// N tree) + 2 n beta, with the least of the chain's rate and of m adapters'. Preconditions: p is m
// times N; the level's latency is known.
[[nodiscard]] Seconds tree_of_nodes_all_reduce(Bytes n, int p, const NodeLevel& node);

// Every member has n bytes, one p-th of them for each, and sends all others theirs. [T], section
// 3 (pairwise exchange; NCCL's groups of sends and receives): (p - 1) alpha + (p - 1) / p n beta.
// With m members in each of several nodes the two parts travel beside each other: (m - 1) / p of n
// within the node, and (p - m) / p of n through each member's own adapter; the slower counts, with
// its latencies.
[[nodiscard]] Seconds all_to_all(Bytes n, int p, const Link& link);

// What NCCL does, and so what forecasts take: the switch's where there is one and members enough;
// else the fastest of ring, two levels and, where its latency was measured, the trees of nodes for
// a group with several members in each of several nodes, and of ring and double tree for others.
// (Its all-gather and reduce-scatter are rings.)
[[nodiscard]] Seconds all_reduce(Bytes n, int p, const Link& link);

}  // namespace weir
