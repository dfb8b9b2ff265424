// Graphs of waits against searches that try every path, and a program's neighbours and order
// against its lists of dependencies.
// SPDX-License-Identifier: Apache-2.0
#include "plan/program/graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "plan/program/blocking.hpp"
#include "plan/program/deadlock.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir::graph_test {
namespace {

using Path = std::vector<OperationId>;

// Up to 7 operations, each waiting for some others.
WaitGraph random_graph(std::mt19937& random) {
  WaitGraph graph{1 + random() % 7, {}};
  for (const OperationId id : Ids<OperationId>(graph.operations)) {
    for (const OperationId before : Ids<OperationId>(graph.operations)) {
      if (random() % 4 == 0) graph.waits.push_back({id, before});
    }
  }
  return graph;
}

bool waits(const WaitGraph& graph, OperationId id, OperationId before) {
  return std::any_of(graph.waits.begin(), graph.waits.end(),
                     [&](const Wait& w) { return w.id == id && w.before == before; });
}

// Calls `visit` with every path without repetition that starts at `path`'s last operation.
void every_path(const WaitGraph& graph, Path& path, const std::function<void(const Path&)>& visit) {
  visit(path);
  for (const OperationId next : Ids<OperationId>(graph.operations)) {
    if (!waits(graph, path.back(), next)) continue;
    if (std::find(path.begin(), path.end(), next) != path.end()) continue;
    path.push_back(next);
    every_path(graph, path, visit);
    path.pop_back();
  }
}

void expect_cycle(const WaitGraph& graph, const Path& cycle) {
  for (std::size_t i = 0; i < cycle.size(); ++i)
    EXPECT_TRUE(waits(graph, cycle[i], cycle[(i + 1) % cycle.size()]));
}

TEST(Graph, CyclesAreFoundWhereTheyAreAndTheShortestIsTheShortest) {
  std::mt19937 random(21);
  int cyclic = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const WaitGraph graph = random_graph(random);
    std::size_t least = 0;
    OperationId front = kNoOperation;
    for (const OperationId root : Ids<OperationId>(graph.operations)) {
      Path path{root};
      every_path(graph, path, [&](const Path& way) {
        if (!waits(graph, way.back(), root) || (least != 0 && least <= way.size())) return;
        least = way.size();
        front = root;
      });
    }
    const auto any = find_cycle(graph), shortest = shortest_cycle(graph);
    ASSERT_EQ(any.has_value(), least > 0) << "seed 21, trial " << trial;
    ASSERT_EQ(shortest.has_value(), least > 0) << "seed 21, trial " << trial;
    if (!any) continue;
    ++cyclic;
    expect_cycle(graph, *any);
    expect_cycle(graph, *shortest);
    EXPECT_EQ(shortest->size(), least);
    EXPECT_EQ(shortest->front(), front);
  }
  EXPECT_GT(cyclic, 100);
}

// Of the parallel ways through a program the cycle's description names each wait's reason; an
// operation that waits for itself is a cycle of one.
TEST(Graph, AnOperationMayWaitForItself) {
  const WaitGraph graph{2, {{OperationId{1}, OperationId{1}}}};
  EXPECT_EQ(find_cycle(graph), Path{OperationId{1}});
  EXPECT_EQ(shortest_cycle(graph), Path{OperationId{1}});
}

TEST(Program, NeighboursAgreeWithTheDependencies) {
  for (const Generator& generator : generators()) {
    const auto made =
        make_schedule(generator.name, {4, generator.default_chunks, 16, generator.default_slices});
    const auto* schedule = std::get_if<Schedule>(&made);
    ASSERT_NE(schedule, nullptr) << generator.name;
    const Program program = lower(*schedule, {});
    PerOperation<std::vector<OperationId>> after(program.size());
    for (const OperationId id : program.ids()) {
      const Lane& lane = program.lane_of(id);
      EXPECT_EQ(program.previous(id), id == lane.first ? kNoOperation : id - 1);
      EXPECT_EQ(program.next(id), id + 1 == lane.last ? kNoOperation : id + 1);
      for (const Dependency& d : program.predecessors(id)) {
        after[d.before].push_back(id);
        if (lane.kind == LaneKind::send && d.kind == DependencyKind::data) {
          EXPECT_EQ(program.producer(id), d.before);
          EXPECT_EQ(program.send_after(d.before), id);
        }
        if (lane.kind == LaneKind::receive) {
          EXPECT_EQ(program.peer(id), d.before);
          EXPECT_EQ(program.peer(d.before), id);
          EXPECT_EQ(program.peer_rank(id), program.rank_of(d.before));
          EXPECT_EQ(program.peer_rank(d.before), program.rank_of(id));
        }
        if (lane.kind == LaneKind::compute && program.lane_of(d.before).kind == LaneKind::receive) {
          EXPECT_EQ(program.receive_before(id), d.before);
          EXPECT_EQ(program.consumer(d.before), id);
        }
      }
    }
    for (const OperationId id : program.ids()) {
      const auto successors = program.successors(id);
      EXPECT_EQ(after[id], Path(successors.begin(), successors.end())) << generator.name;
    }
    for (const Rank rank : program.ranks()) {
      EXPECT_EQ(program.compute_lane(rank).rank, rank);
      EXPECT_EQ(program.compute_lane(rank).kind, LaneKind::compute);
    }
  }
}

// Each operation stands behind all that it waits for; all have a place just where the search for
// cycles finds none, and blocking transfers have an order too.
TEST(Program, OrderHasAllBehindWhatTheyWaitFor) {
  int stuck = 0;
  const auto check = [&stuck](const Program& program) {
    PerOperation<std::int32_t> place(program.size(), -1);
    for (std::size_t i = 0; i < program.order().size(); ++i) {
      EXPECT_EQ(place[program.order()[i]], -1);
      place[program.order()[i]] = static_cast<std::int32_t>(i);
    }
    for (const auto& [id, before] : wait_graph(program).waits) {
      if (place[id] < 0) continue;
      EXPECT_GE(place[before], 0);
      EXPECT_LT(place[before], place[id]);
    }
    const bool cyclic = find_cycle(wait_graph(program)).has_value();
    EXPECT_EQ(program.order().size() < program.size(), cyclic);
    stuck += cyclic ? 1 : 0;
  };
  for (const Generator& generator : generators()) {
    const auto made =
        make_schedule(generator.name, {4, generator.default_chunks, 8, generator.default_slices});
    const auto* schedule = std::get_if<Schedule>(&made);
    ASSERT_NE(schedule, nullptr) << generator.name;
    for (const int slots : {0, 1, 2}) check(lower(*schedule, {.slots = slots}));
    for (const TransferMode mode : {TransferMode::rendezvous, TransferMode::batched})
      check(block_transfers(lower(*schedule, {.slots = 0}), mode));
  }
  EXPECT_GT(stuck, 3);
  // A wave back through so many ranks would take as many rounds.
  check(lower(std::get<Schedule>(make_schedule("1f1b", {2048, 1, 1})), {.slots = 2}));
  EXPECT_TRUE(Program().order().empty());
}

}  // namespace
}  // namespace weir::graph_test
