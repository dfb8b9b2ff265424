// A program is what both engines consume: a schedule lowered to operations on lanes, with every
// dependency written down. The simulator gives it virtual time, the executor real time; an
// operation's id is the action id by which the two are joined. It is made whole and then only read
// (plan/program/lower makes it; blocking and repeat make others of it); order, cycles and longest
// paths are in plan/program/graph.
// A skip that goes directly is a message of its own (Action::other), beside the one to the
// neighbour.
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
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "plan/schedule/schedule.hpp"
#include "plan/words/indexed.hpp"

namespace weir {

enum class LaneKind : std::uint8_t { compute, send, receive, reduce };
[[nodiscard]] std::string_view to_string(LaneKind kind);
[[nodiscard]] std::optional<LaneKind> parse_lane_kind(std::string_view text);

using OperationId = Index<struct OperationTag>;
using LaneId = Index<struct LaneTag>;
using EdgeId = Index<struct EdgeTag>;
template <class T>
using PerOperation = Indexed<OperationId, T>;
constexpr OperationId kNoOperation{-1};
constexpr EdgeId kNoEdge{-1};

// A skip that goes directly from the stage that makes it to the one that takes it, past the stages
// between; its gradient goes back the same way.
struct SkipRoute {
  Stage from, to;  // to > from + 1
  bool operator==(const SkipRoute&) const = default;
};

struct Operation {
  Action action;
  LaneId lane;
};

struct Lane {
  Rank rank;
  LaneKind kind = LaneKind::compute;
  EdgeId edge = kNoEdge;  // of send and receive lanes
  OperationId first, last;

  // [first, last), in order.
  [[nodiscard]] Ids<OperationId> operations() const { return {first, last}; }
  [[nodiscard]] std::int32_t size() const { return last - first; }
};

// A directed edge: one FIFO. Message i is operation i of the send lane and of the receive lane.
struct Edge {
  Rank from, to;
  LaneId send_lane;
  LaneId receive_lane;
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
  OperationId before;
  DependencyKind kind = DependencyKind::data;
};

// What each operation waits for besides its lane predecessor, in one array: `add` appends to the
// operation that `next` opened last. A send's first is the operation whose value it sends, a
// receive's only one is its send.
class Dependencies {
 public:
  void reserve(std::size_t operations, std::size_t dependencies) {
    first_.reserve(operations + 1);
    all_.reserve(dependencies);
  }
  void next() { first_.push_back(first_.back()); }
  void add(OperationId before, DependencyKind kind) {
    all_.push_back({before, kind});
    ++first_.back();
  }
  [[nodiscard]] std::span<const Dependency> of(OperationId id) const {
    return std::span(all_).subspan(first_[id.position()],
                                   first_[id.position() + 1] - first_[id.position()]);
  }
  [[nodiscard]] std::size_t size() const { return all_.size(); }

 private:
  std::vector<std::uint32_t> first_{0};
  std::vector<Dependency> all_;
};

// A value: copies share what was made, which is only read, so that a search can hand the program of
// a step with a million operations to every candidate of its shape.
class Program {
 public:
  struct Parts {
    ScheduleShape shape;
    std::int32_t slots = 0;  // receive slots an edge; 0: unlimited
    PerOperation<Operation> operations;
    Indexed<LaneId, Lane> lanes;  // of rank 0, then rank 1, ...; compute lane first
    Indexed<EdgeId, Edge> edges;  // ordered by (from, to)
    Dependencies dependencies;
    // except-last: nothing of the last micro-batch is re-materialised.
    bool spares_last = false;
  };
  Program();  // of no rank
  explicit Program(Parts parts);

  // The parts again, to make another program of them.
  [[nodiscard]] const Parts& parts() const { return made_->parts; }
  [[nodiscard]] const ScheduleShape& shape() const { return parts().shape; }
  [[nodiscard]] std::int32_t slots() const { return parts().slots; }

  // Whether an action's micro-batch keeps its activations even where others' are re-materialised.
  [[nodiscard]] bool spared(const Action& action) const {
    return parts().spares_last && shape().is_last_microbatch(action.microbatch);
  }

  [[nodiscard]] std::size_t size() const { return parts().operations.size(); }
  [[nodiscard]] Ids<OperationId> ids() const { return parts().operations.ids(); }
  [[nodiscard]] const Operation& op(OperationId id) const { return parts().operations[id]; }
  [[nodiscard]] const PerOperation<Operation>& operations() const { return parts().operations; }
  [[nodiscard]] const Lane& lane(LaneId id) const { return parts().lanes[id]; }
  [[nodiscard]] const Lane& lane_of(OperationId id) const { return lane(op(id).lane); }
  [[nodiscard]] const Indexed<LaneId, Lane>& lanes() const { return parts().lanes; }
  [[nodiscard]] const Edge& edge(EdgeId id) const { return parts().edges[id]; }
  // Of a send or a receive.
  [[nodiscard]] const Edge& edge_of(OperationId id) const { return edge(lane_of(id).edge); }
  [[nodiscard]] const Indexed<EdgeId, Edge>& edges() const { return parts().edges; }

  [[nodiscard]] Ids<Rank> ranks() const { return Ids<Rank>(shape().ranks); }
  [[nodiscard]] Rank rank_of(OperationId id) const { return lane_of(id).rank; }
  [[nodiscard]] const Lane& compute_lane(Rank rank) const {
    return lane(made_->compute_lanes[rank]);
  }
  // The rank at the other end of a send or a receive; the operation's own for others.
  [[nodiscard]] Rank peer_rank(OperationId id) const;
  // The receive of a send, the send of a receive.
  [[nodiscard]] OperationId peer(OperationId id) const;

  // Neighbours on its lane; kNoOperation at the lane's ends.
  [[nodiscard]] OperationId previous(OperationId id) const {
    return lane_of(id).first == id ? kNoOperation : id - 1;
  }
  [[nodiscard]] OperationId next(OperationId id) const {
    return lane_of(id).last == id + 1 ? kNoOperation : id + 1;
  }
  // What `id` waits for besides its lane predecessor, and what waits for it besides its lane
  // successor (in ascending order; once for each dependency).
  [[nodiscard]] std::span<const Dependency> predecessors(OperationId id) const {
    return parts().dependencies.of(id);
  }
  [[nodiscard]] std::span<const OperationId> successors(OperationId id) const {
    const auto& first = made_->first_successor;
    return std::span(made_->successors)
        .subspan(first[id.position()], first[id.position() + 1] - first[id.position()]);
  }
  // All operations, each behind its lane predecessor and all that it waits for; fewer, where the
  // program waits for itself. Found when it is first asked for, by whichever thread.
  [[nodiscard]] const std::vector<OperationId>& order() const;
  // The operation whose value a send carries.
  [[nodiscard]] OperationId producer(OperationId send) const {
    return predecessors(send).front().before;
  }
  // The send of what a compute operation makes for the next stage or the one before, the compute
  // operation that takes what a receive brings; kNoOperation where there is none.
  [[nodiscard]] OperationId send_after(OperationId compute) const;
  [[nodiscard]] OperationId consumer(OperationId receive) const;
  // The receive whose message, from the next stage or the one before, a compute operation takes
  // or, with R fused into it, waits for; kNoOperation where there is none.
  [[nodiscard]] OperationId receive_before(OperationId compute) const;

 private:
  struct Made {
    explicit Made(Parts its);
    Parts parts;
    Indexed<Rank, LaneId> compute_lanes;
    std::vector<std::uint32_t> first_successor;
    std::vector<OperationId> successors;
    mutable std::once_flag ordered;
    mutable std::vector<OperationId> order;
  };
  std::shared_ptr<const Made> made_;
};

}  // namespace weir
