// A program is what both engines consume: a schedule lowered to operations on lanes, with every
// dependency written down. The simulator gives it virtual time, the executor real time; an
// operation's index is the action id by which the two are joined.
//
// Lanes of a rank: one compute lane (F B I W R OPTIMIZER), one reduce lane (REDUCE_GRAD), and for
// each directed edge to or from another rank one send or receive lane, so that a full edge blocks
// only itself, never compute and never another edge. Operations of one lane start in lane order,
// each after its predecessor ended. Receives are the exception in time: a receive spans from the
// start of its send to its arrival, and several may be in flight on one edge; they still complete
// in order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/schedule/schedule.hpp"

namespace weir {

enum class LaneKind : std::uint8_t { compute, send, receive, reduce };

using OperationId = std::int32_t;
using LaneId = std::int32_t;

struct Operation {
  Action action;
  LaneId lane = 0;
};

struct Lane {
  Rank rank;
  LaneKind kind = LaneKind::compute;
  std::int32_t edge = -1;  // index into Program::edges for send and receive lanes
  OperationId first = 0;   // operations [first, last), in order
  OperationId last = 0;
};

// A directed edge: one FIFO. Message i is operation send_first + i of the send lane and
// receive_first + i of the receive lane.
struct Edge {
  Rank from, to;
  LaneId send_lane = 0;
  LaneId receive_lane = 0;
};

enum class DependencyKind : std::uint8_t {
  data,  // the value made by the earlier operation (F before its B, compute before its send, ...)
  message,   // a send before its receive
  slot,      // the consumer that frees a receive slot before the send that needs the slot
  gradient,  // all backwards of a stage before its reduction or optimizer
  transfer,  // a blocking transfer's other end, or the transfer a rank waits for
             // (plan/program/blocking)
};

struct Dependency {
  OperationId before = 0;
  DependencyKind kind = DependencyKind::data;
};

struct Program {
  ScheduleShape shape;
  std::int32_t slots = 0;  // receive slots an edge; 0: unlimited
  std::vector<Operation> operations;
  std::vector<Lane> lanes;  // of rank 0, then rank 1, ...; compute lane first
  std::vector<Edge> edges;  // ordered by (from, to)
  // Predecessors of operation i besides its lane predecessor: dependencies[dependency_first[i] ..
  // [i+1]).
  std::vector<std::int32_t> dependency_first;
  std::vector<Dependency> dependencies;

  [[nodiscard]] std::span<const Dependency> predecessors(OperationId id) const {
    const auto first = static_cast<std::size_t>(dependency_first[static_cast<std::size_t>(id)]);
    const auto last = static_cast<std::size_t>(dependency_first[static_cast<std::size_t>(id) + 1]);
    return std::span(dependencies).subspan(first, last - first);
  }
  [[nodiscard]] const Lane& lane_of(OperationId id) const {
    return lanes[static_cast<std::size_t>(operations[static_cast<std::size_t>(id)].lane)];
  }
};

}  // namespace weir
