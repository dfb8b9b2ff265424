// Skips that go directly: what each message carries, by hand, and the program that carries them.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/direct_skips.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "plan/job/resolve.hpp"
#include "plan/model/cnn/network.hpp"
#include "plan/program/deadlock.hpp"
#include "plan/program/slot_walk.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "tests/plan/complaint.hpp"

namespace weir::direct_skips_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two levels of one convolution from 4 channels on, 16 x 16 images. Numbers of a sample: s0 of
// encoder.0 is 4 x 16 x 16 = 1024, s1 of encoder.1 8 x 8 x 8 = 512. The maps that go on:
// x1 4 x 8 x 8 = 256, x2 8 x 4 x 4 = 128, the bottleneck's y2 8 x 4 x 4 = 128, decoder.1's y1
// 4 x 8 x 8 = 256, decoder.0's y0 2 x 16 x 16 = 512.
Model unet() {
  return cnn::unet_blocks({.depth = 2, .convolutions = 1, .channels = 4, .outputs = 3}, {3, 16});
}

Plan plan_of(std::vector<int> boundaries, SkipTransport skips, int microbatches = 2) {
  Plan plan;
  plan.pp = static_cast<int>(boundaries.size()) + 1;
  plan.microbatches = microbatches;
  plan.boundaries = std::move(boundaries);
  plan.skips = skips;
  return plan;
}

Schedule schedule_of(const Plan& plan, const char* name = "1f1b") {
  return std::get<Schedule>(make_schedule(name, {plan.pp, plan.vpp, plan.microbatches}));
}

ResolvedPlan resolved(std::vector<int> boundaries, SkipTransport skips, int microbatches = 2) {
  const Plan plan = plan_of(std::move(boundaries), skips, microbatches);
  return derive(plan, unet(), schedule_of(plan));
}

// Bytes of a sample that are sent forwards by all stages, and backwards.
std::pair<std::int64_t, std::int64_t> sent(const ResolvedPlan& plan) {
  std::int64_t forwards = 0, backwards = 0;
  for (const Operation& operation : plan.program.operations()) {
    const Action& action = operation.action;
    if (!is_send(action.kind) || action.microbatch.value > 0) continue;
    (action.kind == ActionKind::SEND_F ? forwards : backwards) +=
        plan.stage(action.stage).message_bytes(action);
  }
  return {forwards, backwards};
}

// A level a stage, the classes with the last. Relayed, the four boundaries carry x1 s0, x2 s1 s0,
// y2 s1 s0 and y1 s0: 1280 + 1664 + 1664 + 1280 numbers of 4 bytes, 23 KiB. Directly they carry x1,
// x2, y2 and y1, and s0 and s1 go once each: 768 + 1536 numbers, 9 KiB.
TEST(DirectSkips, SendNineKibibytesWhereARelaySendsTwentyThree) {
  const std::vector<int> levels{1, 2, 3, 4};
  EXPECT_EQ(sent(resolved(levels, SkipTransport::relay)), std::pair(23L << 10, 23L << 10));
  EXPECT_EQ(sent(resolved(levels, SkipTransport::direct)), std::pair(9L << 10, 9L << 10));
}

// [e0][e1][bottleneck d1][d0 classes]: s1 goes to the next stage, so with its own input; s0 from
// stage 0 to stage 3.
TEST(DirectSkips, GoPastStagesOnly) {
  const ResolvedPlan plan = resolved({1, 2, 4}, SkipTransport::direct);
  EXPECT_THAT(plan.lowering.skips, ElementsAre(SkipRoute{Stage{0}, Stage{3}}));
  const auto rows = [&](int s) {
    const StagePart& stage = plan.stage(Stage{s});
    return std::pair(stage.input_bytes / 4, stage.output_bytes / 4);
  };
  EXPECT_EQ(rows(0), std::pair(0L, 256L + 1024));
  EXPECT_EQ(rows(1), std::pair(256L, 128L + 512));
  EXPECT_EQ(rows(2), std::pair(128L + 512, 256L));
  EXPECT_EQ(rows(3), std::pair(256L + 1024, 0L));
  EXPECT_THAT(plan.stage(Stage{0}).skips_out, ElementsAre(StageSkip{Stage{3}, 4096}));
  EXPECT_THAT(plan.stage(Stage{3}).skips_in, ElementsAre(StageSkip{Stage{0}, 4096}));
  EXPECT_THAT(plan.stage(Stage{1}).skips_out, IsEmpty());
  // Layers hold what their stages' rows do.
  for (const auto& [layer, numbers] : {std::pair(0, 1280L), {1, 640L}, {2, 640L}, {3, 256L}})
    EXPECT_EQ(plan.part->layer(layer).tensors.output_bytes_per_sample, numbers * 4) << layer;
  // Two that go to one stage go as one, the latest made in front.
  const ResolvedPlan both = resolved({2, 3}, SkipTransport::direct);
  EXPECT_THAT(both.stage(Stage{0}).skips_out, ElementsAre(StageSkip{Stage{2}, (512 + 1024) * 4}));
  EXPECT_EQ(both.stage(Stage{0}).message_bytes({{}, ActionKind::SEND_F}), 128 * 4);
  // On two stages none is passed by: the plan is a relay's.
  EXPECT_THAT(resolved({3}, SkipTransport::direct).lowering.skips, IsEmpty());
}

std::vector<std::string> names(const CellShape& cell) {
  std::vector<std::string> all;
  for (const CellOperation& operation : cell.operations) all.push_back(operation.name);
  return all;
}

// What passes its stage by, a cell neither reads nor packs: of the bottleneck alone on a stage a
// map goes in and a map comes out.
TEST(DirectSkips, CellsLeaveOutWhatPassesTheirStageBy) {
  const Model model = unet();
  const auto cell = [](const Model& of, std::size_t l) {
    return std::get<CellShape>(of.layers[l].shape);
  };
  EXPECT_THAT(names(cell(model, 2)),
              ElementsAre("front", "conv0", "bn0", "relu0", "stashed", "pack"));
  const Model alone = staged_model(model, {1, 2, 3, 4});
  const CellShape bottleneck = cell(alone, 2);
  EXPECT_THAT(names(bottleneck), ElementsAre("conv0", "bn0", "relu0"));
  EXPECT_EQ(bottleneck.input, (FeatureMap{8, 4, 4}));
  EXPECT_THAT(bottleneck.operations.front().inputs, ElementsAre(0));
  // encoder.1 packs what it has made, and no more; decoder.1 takes that, and hands on nothing.
  EXPECT_THAT(names(cell(alone, 1)), ElementsAre("conv0", "bn0", "relu0", "down", "pack"));
  EXPECT_EQ(cell(alone, 1).map(cell(alone, 1).output()).numbers(), 128 + 512);
  EXPECT_THAT(names(cell(alone, 3)),
              ElementsAre("front", "up", "skip", "concat", "conv0", "bn0", "relu0"));
  EXPECT_EQ(cell(alone, 3).input.numbers(), 128 + 512);
  // With encoder.1 and decoder.1 on its stage, s1 is in the row and s0 is not.
  const CellShape between = cell(staged_model(model, {1, 4}), 2);
  EXPECT_THAT(names(between), ElementsAre("front", "conv0", "bn0", "relu0", "stashed", "pack"));
  EXPECT_EQ(between.input.numbers(), 128 + 512);
  EXPECT_EQ(between.map(between.output()).numbers(), 128 + 512);
  // On one stage, and on the first, all is as it was.
  for (std::size_t l = 0; l < 5; ++l)
    EXPECT_EQ(names(cell(staged_model(model, {}), l)), names(cell(model, l)));
}

// An edge of its own for a skip and one for its gradient; F waits for both of its messages, and a
// backward for both of its gradients.
TEST(DirectSkips, HaveEdgesOfTheirOwn) {
  const Program& program = resolved({1, 2, 4}, SkipTransport::direct, 1).program;
  std::vector<std::string> sends;
  for (const Edge& edge : program.edges()) {
    for (const OperationId id : program.lane(edge.send_lane).operations())
      sends.push_back(to_string(program.op(id).action));
  }
  EXPECT_THAT(sends, ElementsAre("0SEND_F0", "0SEND_F0:3", "1SEND_B0", "1SEND_F0", "2SEND_B0",
                                 "2SEND_F0", "3SEND_B0:0", "3SEND_B0"));
  const auto id_of = [&](const char* name) {
    for (const OperationId id : program.ids()) {
      if (to_string(program.op(id).action) == name) return id;
    }
    return kNoOperation;
  };
  const auto waits = [&](const char* name) {
    std::vector<std::string> all;
    for (const Dependency& d : program.predecessors(id_of(name)))
      all.push_back(to_string(program.op(d.before).action));
    return all;
  };
  EXPECT_THAT(waits("3F0"), ElementsAre("3RECV_F0", "3RECV_F0:0"));
  EXPECT_THAT(waits("0B0"), ElementsAre("0RECV_B0", "0RECV_B0:3"));
  EXPECT_THAT(waits("2F0"), ElementsAre("2RECV_F0"));
  EXPECT_EQ(program.send_after(id_of("3B0")), id_of("3SEND_B0"));  // the neighbour's
  EXPECT_EQ(program.receive_before(id_of("0B0")), id_of("0RECV_B0"));
  EXPECT_EQ(program.consumer(id_of("3RECV_F0:0")), id_of("3F0"));
}

// Counting and the program's cycles agree, with skips too: any order of forwards on each rank, few
// slots. A rank that takes micro-batches in another order than the one that makes its skip needs
// more slots than one.
TEST(DirectSkips, SlotsAreThoseOfTheProgram) {
  std::mt19937 random(20261125);
  const std::vector<SkipRoute> skips{
      {Stage{0}, Stage{2}}, {Stage{0}, Stage{3}}, {Stage{1}, Stage{3}}};
  int ended = 0, stuck = 0;
  for (const char* name : {"gpipe", "1f1b", "zb-h1"}) {
    for (int draw = 0; draw < 60; ++draw) {
      Schedule schedule = std::get<Schedule>(make_schedule(name, {4, 1, 5}));
      for (int swaps = 0; swaps < draw % 4; ++swaps) {
        auto& order = schedule.order[Rank{std::uniform_int_distribution(0, 3)(random)}];
        const auto one =
            order.begin() + std::uniform_int_distribution<std::ptrdiff_t>(
                                0, static_cast<std::ptrdiff_t>(order.size()) - 2)(random);
        std::iter_swap(one, one + 1);
      }
      SlotWalk walk(schedule, skips);
      for (const int slots : {1, 2, 3, 0}) {
        const LoweringOptions options{.slots = slots, .optimizer = false, .skips = skips};
        const bool cycle = find_cycle(lower(schedule, options)).has_value();
        EXPECT_EQ(walk.ends(slots), !cycle) << name << ", draw " << draw << ", " << slots;
        ++(cycle ? stuck : ended);
      }
    }
  }
  EXPECT_GT(ended, 300);
  EXPECT_GT(stuck, 20);
}

// Rank 0 makes 0 1 2, rank 1 takes 1 0 2, rank 2 takes 1 2 0. Each is one exchange away from the
// rank before, for which two slots are enough: the second of them holds what is taken first. The
// skip from rank 0 to rank 2 has both exchanges to make up for: 0 and 1 would hold its two slots
// while rank 2, which takes 0 last, waits for 2.
TEST(DirectSkips, NeedSlotsOfTheirOwn) {
  const Schedule schedule = parse_schedule_csv(
      "0F0,0F1,0F2,0B0,0B1,0B2\n1F1,1F0,1F2,1B0,1B1,1B2\n2F1,2F2,2F0,2B0,2B1,2B2\n", "three.csv");
  EXPECT_EQ(fewest_slots(schedule, 1), 2);
  const std::vector<SkipRoute> skips{{Stage{0}, Stage{2}}};
  EXPECT_EQ(fewest_slots(schedule, 1, skips), 3);
  EXPECT_TRUE(find_cycle(lower(schedule, {.slots = 2, .skips = skips})));
  EXPECT_FALSE(find_cycle(lower(schedule, {.slots = 3, .skips = skips})));
}

TEST(DirectSkips, AreRefusedWhereThereAreNone) {
  const auto why = [](const Model& model, const Plan& plan, const char* schedule) {
    const auto misfit = cannot_go_directly(model, plan, schedule_of(plan, schedule).shape);
    EXPECT_TRUE(!misfit || misfit->key == "skips");
    return misfit ? misfit->reason : "";
  };
  const Plan direct = plan_of({1, 2, 4}, SkipTransport::direct);
  EXPECT_EQ(why(unet(), direct, "gpipe"), "");
  EXPECT_EQ(why(cnn::unet({.depth = 1, .convolutions = 1, .channels = 2}, {3, 4}),
                plan_of({1, 2, 4}, SkipTransport::relay), "gpipe"),
            "");
  EXPECT_THAT(
      why(cnn::unet({.depth = 1, .convolutions = 1, .channels = 2}, {3, 4}), direct, "gpipe"),
      HasSubstr("expected a model whose layers make and take skips"));
  Plan chunks = direct;
  chunks.pp = 2;
  chunks.vpp = 2;
  EXPECT_THAT(why(unet(), chunks, "interleaved-1f1b"), HasSubstr("expected one stage a rank"));
  EXPECT_THAT(why(unet(), direct, "chimera"), HasSubstr("expected one stage a rank"));
  EXPECT_THAT(why(unet(), plan_of({2, 2, 4}, SkipTransport::direct), "gpipe"),
              HasSubstr("expected no stage without layers"));
}

// The word stands in a file only where it says something.
TEST(DirectSkips, AreAWordOfThePlan) {
  const Plan direct = plan_of({1, 2, 4}, SkipTransport::direct);
  const std::string text = to_json(direct);
  EXPECT_THAT(text, HasSubstr("\"skips\": \"direct\",\n  \"schedule\""));
  EXPECT_EQ(parse_plan(text, "plan.json"), direct);
  EXPECT_EQ(to_json(plan_of({1}, SkipTransport::relay)).find("skips"), std::string::npos);
  std::string relayed = text;
  relayed.replace(relayed.find("\"direct\""), 8, "\"relay\"");
  EXPECT_THAT(complaint([&] { static_cast<void>(parse_plan(relayed, "plan.json")); }),
              HasSubstr("plan.json: skips: expected direct (left out where they are relayed)"));
}

// Boundaries that move change the cells and the messages with them.
TEST(DirectSkips, FollowMovedBoundaries) {
  const ResolvedPlan moved = with_boundaries(resolved({1, 2, 4}, SkipTransport::direct), {1, 2, 3});
  const ResolvedPlan made = resolved({1, 2, 3}, SkipTransport::direct);
  EXPECT_EQ(moved.lowering.skips, made.lowering.skips);
  for (int s = 0; s < 4; ++s) {
    EXPECT_EQ(moved.stage(Stage{s}).input_bytes, made.stage(Stage{s}).input_bytes);
    EXPECT_EQ(moved.stage(Stage{s}).skips_in, made.stage(Stage{s}).skips_in);
  }
}

}  // namespace
}  // namespace weir::direct_skips_test
