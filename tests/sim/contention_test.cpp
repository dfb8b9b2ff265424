// Sharing and slowdown on worked examples; without them the engine that advances event by event
// agrees with the other.
// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/contention.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "sim/engine/max_min.hpp"

namespace weir::contention_test {
namespace {

// Two flows over a link of 10, one of them also over a link of 3: 3 for that one, 7 for the other.
// A third that may have no more than 1 leaves 6.
TEST(MaxMin, WorkedExamples) {
  const std::array<double, 2> capacities{10, 3};
  const std::array<Flow, 2> two{Flow{100, {0}}, Flow{100, {0, 1}}};
  EXPECT_EQ(max_min_rates(two, capacities), (std::vector<double>{7, 3}));
  const std::array<Flow, 3> three{Flow{100, {0}}, Flow{100, {0, 1}}, Flow{1, {0}}};
  EXPECT_EQ(max_min_rates(three, capacities), (std::vector<double>{6, 3, 1}));
  const std::array<Flow, 1> free{Flow{5, {}}};
  EXPECT_EQ(max_min_rates(free, capacities), (std::vector<double>{5}));
}

// On random flows: within every limit and capacity, and each flow is held by its limit or by a full
// resource on which nobody has more: the definition of max-min fairness.
TEST(MaxMin, NobodyCanHaveMore) {
  std::mt19937 random(3);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<double> capacities;
    for (int r = pick(1, 5); r > 0; --r) capacities.push_back(pick(1, 20));
    std::vector<Flow> flows;
    for (int f = pick(1, 8); f > 0; --f) {
      Flow flow{static_cast<double>(pick(1, 12)), {}};
      for (std::size_t r = 0; r < capacities.size(); ++r) {
        if (pick(0, 1) == 1) flow.resources.push_back(static_cast<std::int32_t>(r));
      }
      flows.push_back(flow);
    }
    const auto rates = max_min_rates(flows, capacities);
    std::vector<double> used(capacities.size(), 0), most(capacities.size(), 0);
    for (std::size_t f = 0; f < flows.size(); ++f) {
      for (const std::int32_t r : flows[f].resources) {
        used[static_cast<std::size_t>(r)] += rates[f];
        most[static_cast<std::size_t>(r)] = std::max(most[static_cast<std::size_t>(r)], rates[f]);
      }
    }
    for (std::size_t r = 0; r < used.size(); ++r)
      ASSERT_LE(used[r], capacities[r] + 1e-9) << "seed 3, " << trial;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      bool held = rates[f] >= flows[f].limit - 1e-9;
      for (const std::int32_t r : flows[f].resources) {
        const auto i = static_cast<std::size_t>(r);
        held |= used[i] >= capacities[i] - 1e-9 && rates[f] >= most[i] - 1e-9;
      }
      ASSERT_TRUE(held) << "seed 3, trial " << trial;
    }
  }
}

CostTable equal(const ScheduleShape& shape, StageCost cost, MessageCost message) {
  CostTable table;
  table.stages.assign(static_cast<std::size_t>(shape.total_stages()), cost);
  table.forward_messages.assign(table.stages.size(), message);
  table.backward_messages = table.forward_messages;
  return table;
}

Program lowered(const char* name, int k, int v, int m, std::int32_t slots = 0) {
  LoweringOptions options;
  options.slots = slots;
  options.optimizer = false;
  return lower(std::get<Schedule>(make_schedule(name, {k, v, m})), options);
}

// Ample capacity and no slowdown: every start and end as the plain engine gives them, on seeded
// random programs.
TEST(Contention, WithoutAnyEqualsThePlainEngine) {
  std::mt19937 random(11);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int cases = 0;
  while (cases < 400) {
    const auto all = generators();
    const Generator& generator =
        all[static_cast<std::size_t>(pick(0, static_cast<int>(all.size()) - 1))];
    const int k = pick(1, 6), m = pick(1, 12);
    const auto made =
        make_schedule(generator.name, {k, generator.default_chunks, m, generator.default_slices});
    if (std::holds_alternative<std::string>(made)) continue;
    const Schedule& schedule = std::get<Schedule>(made);
    LoweringOptions options;
    options.slots = fewest_slots(schedule, pick(1, 3));
    const Program program = lower(schedule, options);
    CostTable table = equal(schedule.shape, {}, {});
    const auto draw = [&] { return Nanoseconds(pick(0, 50)); };
    for (auto& stage : table.stages)
      stage = {{draw(), draw(), draw(), draw(), draw(), draw()}, draw()};
    for (auto& message : table.forward_messages) message = {draw(), draw()};
    for (auto& message : table.backward_messages) message = {draw(), draw()};
    if (pick(0, 1) == 1) table.host_overhead = draw();
    const OperationCosts costs = expand(program, table);
    Contention ample;
    ample.capacities = {1e18};
    ample.edges.assign(program.edges().size(), {1e9, {0}});
    const auto plain = std::get<Timing>(simulate(program, costs));
    const auto shared = std::get<Timing>(simulate(program, costs, ample));
    ASSERT_EQ(shared.start_ns, plain.start_ns) << generator.name << ", seed 11, case " << cases;
    ASSERT_EQ(shared.end_ns, plain.end_ns) << generator.name << ", seed 11, case " << cases;
    ++cases;
  }
}

// Chimera, K = 4, M = 4: two pipelines of two micro-batches from both ends. Their first messages, 0
// to 1 and 3 to 2, are sent at 10 and need 8 ns each at full speed. Over one shared link of that
// speed they take 16.
TEST(Contention, TwoTransfersShareALink) {
  const Program program = lowered("chimera", 4, 1, 4);
  const OperationCosts costs =
      expand(program, equal(program.shape(), {{.f = Nanoseconds(10), .b = Nanoseconds(20)}},
                            {Nanoseconds(8), Nanoseconds(0)}));
  Contention contention;
  contention.capacities = {1e9};
  contention.edges.assign(program.edges().size(), {1e9, {0}});
  const auto alone = std::get<Timing>(simulate(program, costs));
  const auto shared = std::get<Timing>(simulate(program, costs, contention));
  int seen = 0;
  for (const OperationId i : program.ids()) {
    const Action& action = program.op(i).action;
    const Rank rank = program.rank_of(i);
    if (action.kind != ActionKind::SEND_F || alone.start_ns[i] != 10 ||
        (rank.value != 0 && rank.value != 3))
      continue;
    EXPECT_EQ(alone.end_ns[i], 18);
    EXPECT_EQ(shared.end_ns[i], 26);
    ++seen;
  }
  EXPECT_EQ(seen, 2);
  EXPECT_GT(shared.makespan, alone.makespan);
}

// GPipe, K = 2, M = 2, F = 100, a message of 50: 0F0 ends at 100, its message runs beside 0F1.
// Compute loses a half while that lasts: 0F1 does 25 of its 100 by 150 (the transfer is not
// slowed), hence ends at 225.
TEST(Contention, TransfersSlowComputeBeside) {
  const Program program = lowered("gpipe", 2, 1, 2);
  const OperationCosts costs =
      expand(program, equal(program.shape(), {{.f = Nanoseconds(100), .b = Nanoseconds(100)}},
                            {Nanoseconds(50), Nanoseconds(0)}));
  Contention contention;
  contention.compute_slowdown = 0.5;
  const auto timing = std::get<Timing>(simulate(program, costs, contention));
  EXPECT_EQ(timing.end_ns[OperationId{0}], 100);
  EXPECT_EQ(timing.start_ns[OperationId{1}], 100);
  EXPECT_EQ(timing.end_ns[OperationId{1}], 225);
  // And the transfer a fifth: 50 of work at 0.8 take 62.5, so it ends at 163 and 0F1 at 232 (63 at
  // half speed, 68.5).
  contention.transfer_slowdown = 0.2;
  EXPECT_EQ(std::get<Timing>(simulate(program, costs, contention)).end_ns[OperationId{1}], 232);
}

// Two ranks on one device: GPipe with K = 2 takes what one rank would for both stages, M (F + B)
// each, when nothing is ever idle: 2 M (F + B), plus nothing for the fill, since the other stage
// then has the device alone.
TEST(Contention, RanksOnOneDeviceShareItsSpeed) {
  const Program program = lowered("gpipe", 2, 1, 6);
  const OperationCosts costs =
      expand(program, equal(program.shape(), {{.f = Nanoseconds(100), .b = Nanoseconds(200)}}, {}));
  Contention contention;
  contention.device_of_rank.resize(2);
  EXPECT_EQ(std::get<Timing>(simulate(program, costs, contention)).makespan.count(), 2 * 6 * 300);
  EXPECT_EQ(std::get<Timing>(simulate(program, costs)).makespan.count(), (6 + 1) * 300);
}

// Interleaved over two nodes of two: the turn from rank 3 to rank 0 and the step from 1 to 2 both
// leave a node, but not the same one; a card of the links' own speed changes nothing, one of half
// of it does.
TEST(Contention, NodesShareTheirCards) {
  Cluster cluster;
  cluster.devices_per_node = 2;
  cluster.nodes = 2;
  cluster.intra = {Seconds(0), BytesPerSecond(1e9)};
  cluster.inter = {Seconds(0), BytesPerSecond(1e9)};
  const Program program = lowered("interleaved-1f1b", 4, 2, 8);
  const OperationCosts costs =
      expand(program, equal(program.shape(), {{.f = Nanoseconds(10), .b = Nanoseconds(20)}},
                            {Nanoseconds(8), Nanoseconds(1)}));
  EXPECT_TRUE(shared_node_links(program, cluster).none());
  cluster.node_bandwidth = BytesPerSecond(2e9);
  const auto wide = std::get<Timing>(simulate(program, costs, shared_node_links(program, cluster)));
  EXPECT_EQ(wide.end_ns, std::get<Timing>(simulate(program, costs)).end_ns);
  cluster.node_bandwidth = BytesPerSecond(0.5e9);
  EXPECT_GT(
      std::get<Timing>(simulate(program, costs, shared_node_links(program, cluster))).makespan,
      wide.makespan);
}

}  // namespace
}  // namespace weir::contention_test
