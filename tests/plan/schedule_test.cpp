// Generators as readable grids, the judge with its picture, CSV both ways, lowering and its proof.
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "plan/program/comms_csv.hpp"
#include "plan/program/deadlock.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "plan/schedule/validate.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir::schedule_test {
namespace {

using testing::HasSubstr;

Schedule make(const char* name, int k, int v, int m) {
  auto made = make_schedule(name, {k, v, m});
  if (const auto* reason = std::get_if<std::string>(&made)) throw std::runtime_error(*reason);
  return std::get<Schedule>(made);
}

TEST(Gpipe, AllForwardsThenAllBackwards) {
  EXPECT_EQ(to_csv(make("gpipe", 2, 1, 3)), "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2\n");
}

// Warm-up of K-k-1 forwards, then one forward and one backward in turn.
TEST(OneForwardOneBackward, WarmsUpAlternatesAndDrains) {
  EXPECT_EQ(to_csv(make("1f1b", 3, 1, 4)),
            "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n"
            "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3\n"
            "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3\n");
}

TEST(OneForwardOneBackward, AcceptsFewerMicrobatchesThanRanks) {
  EXPECT_EQ(to_csv(make("1f1b", 3, 1, 1)), "0F0,0B0\n1F0,1B0\n2F0,2B0\n");
}

// As PyTorch 2.x prints them (ScheduleZBVZeroBubble, ScheduleInterleavedZeroBubble).
TEST(ZbV, IsPyTorchsOrder) {
  EXPECT_EQ(to_csv(make("zb-v", 2, 2, 3)),
            "0F0,0F1,0F2,3F0,3I0,3W0,3F1,3I1,3W1,0I0,0W0,3F2,3I2,3W2,0I1,0W1,0I2,0W2\n"
            "1F0,2F0,1F1,2F1,2I0,2W0,1F2,1I0,1W0,2F2,2I1,2W1,1I1,2I2,1I2,1W1,2W2,1W2\n");
}

TEST(InterleavedZb, IsPyTorchsOrder) {
  EXPECT_EQ(to_csv(make("interleaved-zb", 2, 2, 2)),
            "0F0,0F1,2F0,2F1,2I0,2W0,2I1,2W1,0I0,0W0,0I1,0W1\n"
            "1F0,1F1,3F0,3I0,3F1,3I1,3W0,1I0,3W1,1I1,1W0,1W1\n");
}

// Every schedule, every shape it accepts: judged right, lowered without a cycle at the fewest slots
// (and not at fewer), and the same again after a trip through either kind of CSV.
TEST(EveryGenerator, IsValidCannotDeadlockAndSurvivesCsv) {
  int made_count = 0;
  for (const Generator& generator : generators()) {
    for (int k = 1; k <= 8; ++k) {
      for (int m = 1; m <= 20; ++m) {
        for (int v = 1; v <= 3; ++v) {
          const bool in_slices = generator.default_slices > 1;  // v of them, then
          auto made = in_slices ? make_schedule(generator.name, {k, 1, m, v})
                                : make_schedule(generator.name, {k, v, m});
          if (std::holds_alternative<std::string>(made)) continue;
          ++made_count;
          const Schedule& schedule = std::get<Schedule>(made);
          const auto fault = validate(schedule);
          ASSERT_FALSE(fault) << generator.name << " K" << k << " v" << v << " M" << m << ": "
                              << fault->reason << "\n"
                              << fault->picture;
          LoweringOptions options;
          options.slots = fewest_slots(schedule, 1);
          ASSERT_GT(options.slots, 0) << generator.name;
          const Program program = lower(schedule, options);
          const auto cycle = find_cycle(program);
          ASSERT_FALSE(cycle) << generator.name << ": " << describe_cycle(program, *cycle);
          if (options.slots > 1) {  // and with one fewer it can
            --options.slots;
            ASSERT_TRUE(find_cycle(lower(schedule, options))) << generator.name;
          }
          const Schedule back = parse_schedule_csv(to_csv(schedule), "trip");
          EXPECT_EQ(back.order, schedule.order) << generator.name;
          EXPECT_EQ(back.overlapped, schedule.overlapped) << generator.name;
          EXPECT_EQ(back.shape.segments, schedule.shape.segments) << generator.name;
          const Schedule comms = parse_schedule_csv(to_comms_csv(program), "trip");
          EXPECT_EQ(comms.order, schedule.order) << generator.name;
        }
      }
    }
  }
  EXPECT_GT(made_count, 300);
}

TEST(Validate, MarksTheCulprit) {
  Schedule schedule = make("gpipe", 2, 1, 2);
  std::swap(schedule.order[Rank{1}][1],
            schedule.order[Rank{1}][2]);  // 1F0 1B0 1F1 1B1 is fine; so is rank 0
  EXPECT_FALSE(validate(schedule));
  std::swap(schedule.order[Rank{1}][0], schedule.order[Rank{1}][1]);  // 1B0 before 1F0
  const auto fault = validate(schedule);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->rank, Rank{1});
  EXPECT_EQ(fault->position, 0);
  EXPECT_THAT(fault->reason, HasSubstr("1B0 before 1F0"));
  EXPECT_THAT(fault->picture, HasSubstr("[1B0]"));
}

TEST(Validate, FindsWhatIsMissingTwiceMisplacedAndOutOfOrder) {
  Schedule schedule = make("gpipe", 2, 1, 2);
  schedule.order[Rank{0}].pop_back();
  EXPECT_THAT(validate(schedule)->reason,
              HasSubstr("stage 0 has no B (or I and W) of micro-batch 1"));
  schedule = make("gpipe", 2, 1, 2);
  schedule.order[Rank{0}].push_back(schedule.order[Rank{0}][0]);
  EXPECT_THAT(validate(schedule)->reason, HasSubstr("0F0 a second time"));
  schedule = make("gpipe", 2, 1, 2);
  std::swap(schedule.order[Rank{0}][0], schedule.order[Rank{1}][0]);
  EXPECT_THAT(validate(schedule)->reason, HasSubstr("belongs on rank 1"));
  schedule = make("gpipe", 1, 1, 2);
  std::swap(schedule.order[Rank{0}][2], schedule.order[Rank{0}][3]);
  EXPECT_THAT(validate(schedule)->reason, HasSubstr("allow_reordered"));
  ValidationOptions reordered;
  reordered.allow_reordered = true;
  EXPECT_FALSE(validate(schedule, reordered));
}

// Rank 0 wants micro-batch 1's gradient before it has sent micro-batch 1 forward ... which needs
// rank 1 first: crossed.
TEST(Validate, RefusesACrossedScheduleNamingWhoWaits) {
  const Schedule crossed = parse_schedule_csv("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "crossed.csv");
  const auto fault = validate(crossed);
  ASSERT_TRUE(fault);
  EXPECT_THAT(fault->reason, HasSubstr("deadlock: 0B0 waits for the gradient of stage 1"));
}

// With one slot rank 1 cannot take 0F1's message before 1F0 has ended; 1f1b never needs it to. A
// schedule that sends two messages to a rank that consumes the second first needs two slots.
TEST(FindCycle, ProvesSlotsSufficientOrNamesTheCycle) {
  const Schedule needs_two = parse_schedule_csv("0F0,0F1,0B0,0B1\n1F1,1F0,1B0,1B1\n", "two.csv");
  ASSERT_FALSE(validate(needs_two));
  LoweringOptions one;
  one.slots = 1;
  const Program program = lower(needs_two, one);
  const auto cycle = find_cycle(program);
  ASSERT_TRUE(cycle);
  EXPECT_THAT(describe_cycle(program, *cycle),
              HasSubstr("waits for the receive slot freed by 1F0"));
  LoweringOptions two;
  EXPECT_FALSE(find_cycle(lower(needs_two, two)));
}

TEST(Lower, PlacesReMaterialisationDirectlyBeforeTheBackward) {
  LoweringOptions options;
  options.recompute = {true, true};
  options.keep_last_microbatch = true;
  const auto placed = place_recompute(make("gpipe", 2, 1, 2), options);
  std::string row;
  for (const Action& action : placed[Rank{0}]) row += to_string(action) + " ";
  EXPECT_EQ(row, "0F0 0F1 0R0 0B0 0B1 ");
}

// K = 2, M = 2: four messages, one a micro-batch each way; each compute lane ends in its optimizer.
TEST(Lower, WritesLanesMessagesAndTheOptimizer) {
  const Program program = lower(make("1f1b", 2, 1, 2), LoweringOptions{});
  std::string text;
  for (const Lane& lane : program.lanes()) {
    for (const OperationId id : lane.operations()) {
      text += to_string(program.op(id).action) + " ";
    }
    text += "/ ";
  }
  EXPECT_EQ(text,
            "0F0 0F1 0B0 0B1 0OPTIMIZER / 0SEND_F0 0SEND_F1 / 0RECV_B0 0RECV_B1 / "
            "1F0 1B0 1F1 1B1 1OPTIMIZER / 1SEND_B0 1SEND_B1 / 1RECV_F0 1RECV_F1 / ");
}

// Sends equal receives per edge, and boundary crossings number 2 M (K - 1) (docs/theory.md 3.5).
TEST(Lower, CountsTwoMessagesPerMicrobatchAndBoundary) {
  for (int k = 1; k <= 6; ++k) {
    for (int m = 1; m <= 9; ++m) {
      const Program program = lower(make("gpipe", k, 1, m), LoweringOptions{});
      int messages = 0;
      for (const Edge& edge : program.edges()) {
        const Lane& send = program.lane(edge.send_lane);
        const Lane& receive = program.lane(edge.receive_lane);
        EXPECT_EQ(send.last - send.first, receive.last - receive.first);
        messages += send.last - send.first;
      }
      EXPECT_EQ(messages, 2 * m * (k - 1));
    }
  }
}

TEST(Lower, TiedStagesReduceBeforeTheyUpdate) {
  LoweringOptions options;
  options.tied = {{Stage{0}, Stage{1}}};
  const Program program = lower(make("gpipe", 2, 1, 1), options);
  int reductions = 0;
  for (const Operation& operation : program.operations())
    reductions += operation.action.kind == ActionKind::REDUCE_GRAD;
  EXPECT_EQ(reductions, 2);
  EXPECT_FALSE(find_cycle(program));
}

// Nobody updates before all gradients are there: their norm is of all of them.
TEST(Lower, ClippingWaitsForEveryStagesReduction) {
  LoweringOptions options;
  options.clips = true;
  const Program program = lower(make("1f1b", 3, 1, 4), options);
  int optimizers = 0;
  for (const OperationId id : program.ids()) {
    if (program.op(id).action.kind != ActionKind::OPTIMIZER) continue;
    ++optimizers;
    std::set<std::int32_t> stages;
    for (const Dependency& before : program.predecessors(id)) {
      EXPECT_EQ(program.op(before.before).action.kind, ActionKind::REDUCE_GRAD);
      stages.insert(program.op(before.before).action.stage.value);
    }
    EXPECT_THAT(stages, testing::ElementsAre(0, 1, 2));
  }
  EXPECT_EQ(optimizers, 3);
  EXPECT_FALSE(find_cycle(program));
}

// Old files write B for the input half and BW for the whole backward.
TEST(ScheduleCsv, TranslatesTheOldDialectAndRefusesAmbiguity) {
  const Schedule old = parse_schedule_csv("0F0,0BW0\n", "old.csv");
  EXPECT_EQ(to_csv(old), "0F0,0B0\n");
  const Schedule split = parse_schedule_csv("0F0,0B0,0W0\n", "split.csv");
  EXPECT_EQ(to_csv(split), "0F0,0I0,0W0\n");
  EXPECT_THROW(static_cast<void>(parse_schedule_csv("0F0,0I0,0W0,0F1,0BW1\n", "both.csv")),
               InputError);
  try {
    static_cast<void>(parse_schedule_csv("0F0,0F0garbage\n", "bad.csv"));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("bad.csv: row 1, column 2"));
  }
}

// Two stages, two micro-batches, 1F1B. Rank 1's row has 1RECV_F1 before 1B0, because rank 0 sends
// it before it needs 0B0: both ranks post F0, F1, B0, B1.
TEST(CommsCsv, PostsEachPairsMessagesInOneOrderAndAwaitsThem) {
  const Program program = lower(make("1f1b", 2, 1, 2), {});
  EXPECT_EQ(to_comms_csv(program),
            "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,0RECV_B1,0B1,"
            "0WAIT_SEND_F1,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD\n"
            "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,"
            "1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1RESHARD,1WAIT_SEND_B0,1WAIT_SEND_B1\n");
}

TEST(ScheduleCsv, DropsWaitsForSendsAndSumsAndRefusesOthers) {
  const Schedule read = parse_schedule_csv(
      "0F0,0SEND_F0,0B0,0WAIT_SEND_F0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD\n"
      "1F0,1B0,1SEND_B0,1WAIT_SEND_B0\n",
      "waits.csv");
  EXPECT_EQ(to_csv(read), "0F0,0B0\n1F0,1B0\n");
  for (const std::string wait : {"0WAIT_RECV_F0", "0WAIT_F0", "WAIT_SEND_F0", "0WAIT_SEND_F",
                                 "0WAIT_UNSHARD", "0WAIT_WAIT_SEND_F0"})
    EXPECT_THROW(static_cast<void>(parse_schedule_csv("0F0,0B0," + wait, "bad.csv")), InputError);
}

TEST(ScheduleCsv, ReadsPyTorchsOwnFiles) {
  const std::filesystem::path folder =
      std::filesystem::path(WEIR_SOURCE_DIR) / ".." / "shared" / "samples" / "schedules";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no sample files beside the checkout";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".csv") continue;
    const Schedule schedule =
        parse_schedule_csv(read_text_file(entry.path()), entry.path().filename().string());
    EXPECT_GE(schedule.shape.ranks, 2) << entry.path();
    ValidationOptions options;
    options.allow_reordered = true;
    const auto fault = validate(schedule, options);
    EXPECT_FALSE(fault) << entry.path() << ": " << fault->reason;
  }
}

}  // namespace
}  // namespace weir::schedule_test
