// The parts of a run by processes that need no process: clocks, copies, records, what a launcher
// leaves behind.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "exec/processes/clock_offsets.hpp"
#include "exec/processes/edge_rounds.hpp"
#include "exec/processes/process_record.hpp"
#include "exec/processes/started_by.hpp"
#include "exec/rank/message_sizes.hpp"
#include "exec/streams/launch_order.hpp"
#include "exec/training/gradient_copies.hpp"
#include "tests/exec/tiny.hpp"

namespace weir::process_parts_test {
namespace {

// The other clock is 1000 ahead. A trip of 10 out and 30 back looks like 20 and 20: 10 off, within
// its bound of 20. The longer trip, 100 out and 10 back, is not used.
TEST(Clocks, TheShortestTripCounts) {
  const ClockSample sample = shortest({{0, 1100, 110}, {200, 1210, 240}});
  EXPECT_EQ(sample.offset_ns, -990);
  EXPECT_EQ(sample.uncertainty_ns, 20);
}

// 100 behind at its time 0 and 200 behind at its time 1000: 150 behind in the middle, 300 behind at
// 2000.
TEST(Clocks, DriftIsAStraightLine) {
  const ClockLine line{{0, 100, 5}, {1000, 200, 7}};
  EXPECT_EQ(line.to_leader(500), 650);
  EXPECT_EQ(line.to_leader(2000), 2300);
  EXPECT_EQ(line.uncertainty_ns(), 7);
}

// Stages [embedding, block] and [block, block, norm, head]: the head's table is the embedding's, so
// both sum the embedding's gradient first. Nothing else has a second use.
TEST(GradientCopies, ATiedTableIsSummedInLayerOrderOnBothStages) {
  const TinyModel model;
  const ResolvedPlan loaded = model.load(model.plan({2}, 4));
  const GradientCopies copies = gradient_copies(loaded);
  const auto parameters = stage_parameters(loaded);
  int shared = 0;
  for (std::size_t stage = 0; stage < 2; ++stage) {
    for (std::size_t i = 0; i < copies[stage].size(); ++i) {
      if (parameters[stage][i].description.tied_with.empty()) {
        EXPECT_EQ(copies[stage][i].size(), 1U);
        continue;
      }
      ++shared;
      ASSERT_EQ(copies[stage][i].size(), 2U);
      EXPECT_EQ(copies[stage][i][0].layer, 0);
      EXPECT_EQ(copies[stage][i][0].stage, Stage{0});
      EXPECT_EQ(copies[stage][i][1].layer, 5);
      EXPECT_EQ(copies[stage][i][1].stage, Stage{1});
    }
  }
  EXPECT_EQ(shared, 2);
}

// One stage holds both uses: the first sums both, the second is updated with it.
TEST(GradientCopies, OnOneStageTheFirstUseSumsForBoth) {
  const TinyModel model;
  const GradientCopies copies = gradient_copies(model.load(model.plan({}, 1)));
  int both = 0, none = 0;
  for (const auto& uses : copies[0]) {
    both += uses.size() == 2 ? 1 : 0;
    none += uses.empty() ? 1 : 0;
  }
  EXPECT_EQ(both, 1);
  EXPECT_EQ(none, 1);
}

// Two processes, one step; process 1's clock is 50 behind the leader's. It reached the first
// barrier last, at 100 + 50, and the leader the second one, at 400: the step took 250.
TEST(Records, TheLastProcessAtABarrierStampsTheStep) {
  const TinyModel model;
  const Program program = model.load(model.plan({2}, 1)).program;
  const RecordShape shape{1, 0, false};
  StepClock clock;
  clock.start_ns.resize(program.size());
  clock.end_ns.resize(program.size());
  std::vector<ProcessRecord> records;
  for (int rank = 0; rank < 2; ++rank) records.emplace_back(program, Rank{rank}, shape);
  records[0].add({120, 400, 2}, clock, {0.0});
  records[1].add({100, 300, 1}, clock, {2.5});
  const RunResult result = merge(program, shape, records, {{}, {{0, 50, 1}, {1000, 50, 1}}});
  ASSERT_EQ(result.steps.size(), 1U);
  EXPECT_DOUBLE_EQ(result.steps[0].time.count(), 250e-9);
  EXPECT_EQ(result.steps[0].loss, 2.5);
  EXPECT_EQ(result.steps[0].allocations, 3);
}

TEST(Records, WhatADriverSaysTravelsButForItsLabel) {
  const TinyModel model;
  const Program program = model.load(model.plan({2}, 1)).program;
  ProcessRecord record(program, Rank{1}, {1, 0, false});
  record.finish(Bytes(640), Bytes(64),
                DeviceUse{"whole device", 3, 132, 2, Bytes(1000), Bytes(2000), Bytes(5000)});
  EXPECT_EQ(record.peak(), Bytes(640));
  EXPECT_EQ(record.scratch(), Bytes(64));
  const DeviceUse use = record.device_use().value();
  EXPECT_EQ(use.sharing, "");
  EXPECT_EQ(use.device, 3);
  EXPECT_EQ(use.multiprocessors, 132);
  EXPECT_EQ(use.ranks, 2);
  EXPECT_EQ(use.pool_peak, Bytes(1000));
  EXPECT_EQ(use.pool_reserved, Bytes(2000));
  EXPECT_EQ(use.device_used, Bytes(5000));
  record.finish(Bytes(640), Bytes(64), std::nullopt);
  EXPECT_FALSE(record.device_use().has_value());
}

// The sender noticed at 90 that its message, sent at 10, had left; it had arrived at 60.
TEST(Records, AMessageEndsWithItsArrival) {
  const TinyModel model;
  const Program program = model.load(model.plan({2}, 1)).program;
  StepClock clock;
  clock.start_ns.assign(program.size(), 0);
  clock.end_ns.assign(program.size(), 0);
  const auto send = program.lane(program.edge(EdgeId{0}).send_lane).first.position();
  const auto receive = program.lane(program.edge(EdgeId{0}).receive_lane).first.position();
  clock.start_ns[send] = 10;
  clock.end_ns[send] = 90;
  clock.end_ns[receive] = 60;  // its start, 0: it was ready all the time
  join_ends(program, launch_order(program), clock);
  EXPECT_EQ(clock.end_ns[send], 60);
  EXPECT_EQ(clock.start_ns[receive], 10);
  EXPECT_EQ(clock.end_ns[receive], 60);
}

// Rank 1's clock is 30 behind: the message sent at 20 came at 15 and its F took 15 to 25. The
// message begins and ends at 20, then; F, as long as it was or shorter, goes from 20 to 25, and
// nothing begins before what it waited for has ended.
TEST(Records, WhatClocksThatDifferPutTooEarlyIsPutBehindItsMessage) {
  const TinyModel model;
  const Program program = model.load(model.plan({2}, 1)).program;
  StepClock clock;
  clock.start_ns.assign(program.size(), 0);
  clock.end_ns.assign(program.size(), 0);
  const OperationId send = program.lane(program.edge(EdgeId{0}).send_lane).first;
  const OperationId receive = program.peer(send), forward = program.consumer(receive);
  const auto took = [&](OperationId id, std::int64_t start, std::int64_t end) {
    clock.start_ns[id.position()] = start;
    clock.end_ns[id.position()] = end;
  };
  took(program.producer(send), 0, 20);
  took(send, 20, 40);
  took(receive, 0, 15);
  took(forward, 15, 25);
  join_ends(program, launch_order(program), clock);
  EXPECT_EQ(clock.start_ns[receive.position()], 20);
  EXPECT_EQ(clock.end_ns[receive.position()], 20);
  EXPECT_EQ(clock.end_ns[send.position()], 20);
  EXPECT_EQ(clock.start_ns[forward.position()], 20);
  EXPECT_EQ(clock.end_ns[forward.position()], 25);
  for (const OperationId id : program.ids()) {
    for (const Dependency& before : program.predecessors(id)) {
      EXPECT_GE(clock.end_ns[id.position()], clock.end_ns[before.before.position()]);
      if (program.lane_of(id).kind != LaneKind::receive) {
        EXPECT_GE(clock.start_ns[id.position()], clock.end_ns[before.before.position()]);
      }
    }
  }
}

// 4 ranks in a ring both ways: 8 edges, 4 at each rank, so at least 4 rounds; the greedy colouring
// stays below 2 * 4
// - 1. In no round has a rank two edges.
TEST(Connecting, NoRankHasTwoEdgesInARound) {
  std::vector<std::pair<std::int32_t, std::int32_t>> edges;
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    edges.emplace_back(rank, (rank + 1) % 4);
    edges.emplace_back((rank + 1) % 4, rank);
  }
  const std::vector<int> rounds = connection_rounds(edges);
  std::set<std::pair<int, std::int32_t>> busy;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    EXPECT_LT(rounds[i], 7);
    EXPECT_TRUE(busy.insert({rounds[i], edges[i].first}).second);
    EXPECT_TRUE(busy.insert({rounds[i], edges[i].second}).second);
  }
}

// Width 16, sequence 8, 2 samples a micro-batch, fp32: 16 * 8 * 2 * 4 = 1024 bytes, either way.
TEST(MessageSizes, AreTheBoundarysOutput) {
  const TinyModel model;
  const ResolvedPlan loaded = model.load(model.plan({2}, 3));
  const Program& program = loaded.program;
  const std::vector<std::int64_t> bytes = message_bytes(loaded);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const LaneKind kind = program.lane_of(OperationId{i}).kind;
    EXPECT_EQ(bytes[i], kind == LaneKind::send || kind == LaneKind::receive ? 1024 : 0);
  }
}

TEST(StartedBy, SeveralProcessesAreToldFromOne) {
  const auto in = [](const std::map<std::string, std::string>& variables) {
    const auto found = started_by([&](const char* name) {
      const auto variable = variables.find(name);
      return variable == variables.end() ? nullptr : variable->second.c_str();
    });
    return found ? found->processes : 1;
  };
  EXPECT_EQ(in({}), 1);
  EXPECT_EQ(in({{"OMPI_COMM_WORLD_SIZE", "4"}}), 4);
  EXPECT_EQ(in({{"OMPI_COMM_WORLD_SIZE", "1"}}), 1);
  EXPECT_EQ(in({{"PMI_SIZE", "8"}}), 8);
  EXPECT_EQ(in({{"PMIX_RANK", "2"}, {"SLURM_STEP_NUM_TASKS", "3"}}), 3);
  EXPECT_EQ(in({{"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_NTASKS", "3"}}),
            1);  // a batch script before its srun
}

TEST(StartedBy, OneWithoutMpiIsNamed) {
  const auto in = [](const std::map<std::string, std::string>& variables) {
    const auto found = started_without_mpi([&](const char* name) {
      const auto variable = variables.find(name);
      return variable == variables.end() ? nullptr : variable->second.c_str();
    });
    return found ? std::pair(found->by, found->processes) : std::pair(std::string(), 1);
  };
  const std::pair<std::string, int> none("", 1);
  EXPECT_EQ(in({}), none);
  EXPECT_EQ(in({{"RANK", "3"}}), none);
  EXPECT_EQ(in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), none);
  EXPECT_EQ(in({{"RANK", "3"}, {"WORLD_SIZE", "8"}}), std::pair(std::string("torchrun"), 8));
  EXPECT_EQ(in({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}}), std::pair(std::string("srun"), 2));
  // torchrun in a Slurm job of one task
  EXPECT_EQ(in({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}),
            std::pair(std::string("torchrun"), 8));
  // processes that have MPI, whatever else is set
  EXPECT_EQ(in({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_SIZE", "8"}}), none);
  EXPECT_EQ(in({{"SLURM_PROCID", "1"},
                {"SLURM_NTASKS", "2"},
                {"SLURM_STEP_NUM_TASKS", "2"},
                {"PMIX_RANK", "1"}}),
            none);
}

}  // namespace
}  // namespace weir::process_parts_test
