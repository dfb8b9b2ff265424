// Dumped timelines: what is read of them, and how starts are held against others.
// SPDX-License-Identifier: Apache-2.0
#include "traces/timeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>

#include "plan/words/error.hpp"
#include "tests/traces/timeline_files.hpp"
#include "traces/interruptions.hpp"
#include "traces/starts.hpp"

namespace weir::timeline_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TimelineFolder : public testing::Test {
 protected:
  ~TimelineFolder() override { std::filesystem::remove_all(folder_); }
  Timeline read(const TimelineFiles& files) const {
    files.write(folder_);
    return read_timeline(folder_);
  }
  std::string refusal(const TimelineFiles& files) const {
    try {
      static_cast<void>(read(files));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("weir-timeline-" + std::to_string(::getpid()));
};

std::vector<std::string> names(const std::vector<Action>& order) {
  std::vector<std::string> all;
  for (const Action& action : order) all.push_back(to_string(action));
  return all;
}

const ActionStart& start_of(const StartComparison& c, const std::string& action) {
  for (const ActionStart& a : c.actions) {
    if (to_string(a.action) == action) return a;
  }
  throw std::runtime_error("no action " + action);
}

TEST_F(TimelineFolder, IsAScheduleAndAMeasuredTrace) {
  const Timeline timeline = read(TimelineFiles(3));
  EXPECT_TRUE(is_timeline(folder_));
  EXPECT_FALSE(is_timeline(folder_ / "config.json"));
  ASSERT_EQ(timeline.schedule.order.size(), 2U);
  EXPECT_THAT(names(timeline.schedule.order[Rank{0}]), ElementsAre("0F0", "0F1", "0B0", "0B1"));
  EXPECT_THAT(names(timeline.schedule.order[Rank{1}]), ElementsAre("1F0", "1B0", "1F1", "1B1"));
  EXPECT_THAT(timeline.numbers, ElementsAre(1, 2, 3));
  EXPECT_THAT(memory_of(timeline, 2), ElementsAre(Bytes(3LL << 30), Bytes(2LL << 30)));
  // Steps lie one behind the other: 279 ms of warm-up, then 93 each.
  ASSERT_EQ(timeline.trace.steps.size(), 3U);
  EXPECT_EQ(timeline.trace.steps[1].start, Nanoseconds(279'000'000));
  EXPECT_EQ(timeline.trace.steps[2].end, Nanoseconds(465'000'000));
  for (const Span& span : timeline.trace.of_step(2)) {
    if (to_string(span.action) != "1F1") continue;
    EXPECT_EQ(span.start, Nanoseconds((279 + 93 + 41) * 1'000'000LL));
    EXPECT_EQ(span.duration(), Nanoseconds(10'000'000));
  }
}

TEST_F(TimelineFolder, KeepsTheIterationsAskedFor) {
  const Timeline timeline = read(TimelineFiles(3));
  EXPECT_EQ(timeline.step_of(3, "here"), 2);
  EXPECT_THROW(static_cast<void>(timeline.step_of(4, "here")), InputError);
  const Timeline last = only_iterations(timeline, {1, 3});
  EXPECT_THAT(last.numbers, ElementsAre(1, 3));
  ASSERT_EQ(last.trace.steps.size(), 2U);
  EXPECT_EQ(last.trace.steps[1].start, Nanoseconds(279'000'000));
  EXPECT_EQ(last.trace.steps[1].end, Nanoseconds(372'000'000));
  EXPECT_THAT(memory_of(last, 1), ElementsAre(Bytes(3LL << 30), Bytes(2LL << 30)));
}

// Older files have other names of two keys; newer ones say which micro-batch each entry is of.
TEST_F(TimelineFolder, OtherReleasesFiles) {
  TimelineFiles files;
  files.config.erase("vp_size");
  files.config.erase("num_mbs");
  files.config["vpp_size"] = 1;
  files.config["micro_batches"] = 2;
  files.ranks[0]["2"]["fwd_minibatch"] = {0, 1};
  files.ranks[0]["2"]["bwd_chunk"] = {0, 0};
  files.ranks[0]["2"]["wgrad_start"] = nlohmann::json::array();
  EXPECT_EQ(refusal(files), "");
}

TEST_F(TimelineFolder, SaysWhichFileAndKeyIsWrong) {
  struct Wrong {
    const char *file, *says;
    std::function<void(TimelineFiles&)> change;
  };
  const Wrong all[] = {
      {"config.json", "pp_size", [](TimelineFiles& f) { f.config.erase("pp_size"); }},
      {"config.json", "vp_size: chunks of a rank are not told apart",
       [](TimelineFiles& f) { f.config["vp_size"] = 2; }},
      {"config.json", "num_mbs: is 4, while the ranks' files have 2 micro-batches",
       [](TimelineFiles& f) { f.config["num_mbs"] = 4; }},
      {"pp_rank_2.json", "", [](TimelineFiles& f) { f.config["pp_size"] = 3; }},
      {"pp_rank_0.json", "has no iteration",
       [](TimelineFiles& f) { f.ranks[0] = nlohmann::json::object(); }},
      {"pp_rank_1.json", "expected an object of iterations",
       [](TimelineFiles& f) { f.ranks[1] = 3; }},
      {"pp_rank_1.json", "last: expected the number of an iteration",
       [](TimelineFiles& f) { f.ranks[1]["last"] = 1; }},
      {"pp_rank_1.json", "has other iterations than",
       [](TimelineFiles& f) { f.ranks[1].erase("2"); }},
      {"pp_rank_0.json", "2.memory", [](TimelineFiles& f) { f.ranks[0]["2"].erase("memory"); }},
      {"pp_rank_0.json", "2.total", [](TimelineFiles& f) { f.ranks[0]["2"]["total"] = 0; }},
      {"pp_rank_0.json", "1.fwd_start: is empty",
       [](TimelineFiles& f) { f.ranks[0]["1"]["fwd_start"] = nlohmann::json::array(); }},
      {"pp_rank_1.json", "3.bwd_end: has 1 times, expected one for each of 2 micro-batches",
       [](TimelineFiles& f) { f.ranks[1]["3"]["bwd_end"] = {41}; }},
      {"pp_rank_1.json", "3.bwd_end: expected times from 0 to 1e9 ms",
       [](TimelineFiles& f) {
         f.ranks[1]["3"]["bwd_end"] = {"41", 71};
       }},
      {"pp_rank_1.json", "3.bwd_end: expected a list of times in ms",
       [](TimelineFiles& f) { f.ranks[1]["3"]["bwd_end"] = 41; }},
      {"pp_rank_0.json", "2.fwd_end: ends before its start",
       [](TimelineFiles& f) {
         f.ranks[0]["2"]["fwd_end"] = {10, 9};
       }},
      {"pp_rank_0.json", "2: 0F1 begins before 0F0 has ended",
       [](TimelineFiles& f) {
         f.ranks[0]["2"]["fwd_end"] = {11, 20};
       }},
      {"pp_rank_0.json", "3: has another order of actions than iteration 1",
       [](TimelineFiles& f) {
         f.ranks[0]["3"]["fwd_start"] = {0, 62};
         f.ranks[0]["3"]["fwd_end"] = {10, 72};
       }},
      {"pp_rank_1.json", "its times show no schedule",
       [](TimelineFiles& f) {
         for (auto& iteration : f.ranks[1]) {
           std::swap(iteration["fwd_start"], iteration["bwd_start"]);
           std::swap(iteration["fwd_end"], iteration["bwd_end"]);
         }
       }},
      {"pp_rank_0.json", "2.wgrad_start: weight gradients apart from backwards are not read",
       [](TimelineFiles& f) {
         f.ranks[0]["2"]["wgrad_start"] = {1, 2};
       }},
      {"pp_rank_0.json", "2.bwd_minibatch: micro-batches out of order are not read",
       [](TimelineFiles& f) {
         f.ranks[0]["2"]["bwd_minibatch"] = {1, 0};
       }},
      {"pp_rank_0.json", "2.fwd_chunk: chunks of a rank are not read",
       [](TimelineFiles& f) {
         f.ranks[0]["2"]["fwd_chunk"] = {0, 1};
       }},
  };
  for (const Wrong& wrong : all) {
    TimelineFiles files;
    wrong.change(files);
    const std::string said = refusal(files);
    EXPECT_THAT(said, HasSubstr(wrong.file));
    EXPECT_THAT(said, HasSubstr(wrong.says)) << wrong.file;
  }
}

// The second iteration is the first's predicted by a third: every start is off by two thirds of it.
TEST_F(TimelineFolder, StartsAreHeldActionByAction) {
  const Timeline timeline = read(TimelineFiles(2));
  const Trace slow = only_iterations(timeline, {1}).trace;
  const Trace steady = only_iterations(timeline, {2}).trace;
  const StartComparison c = compare_starts(steady, slow);
  EXPECT_NEAR(c.predicted.count(), 0.093, 1e-12);
  EXPECT_NEAR(c.measured.count(), 0.279, 1e-12);
  ASSERT_EQ(c.actions.size(), 8U);
  EXPECT_EQ(to_string(c.actions[5].action), "1B0");  // by rank, then predicted start
  EXPECT_NEAR(start_of(c, "0B1").predicted_start.count(), 0.072, 1e-12);
  EXPECT_NEAR(start_of(c, "0B1").measured_start.count(), 0.216, 1e-12);
  EXPECT_NEAR(start_of(c, "0B1").measured.count(), 0.060, 1e-12);
  const StartErrors errors = summary(start_errors(steady, timeline.trace, 0));
  EXPECT_EQ(errors.actions, 8);
  // Starts 0, 10, 11, 21, 41, 42, 51, 72 ms, each twice as much off, over 279 ms.
  EXPECT_NEAR(errors.median, 2 * 31 / 279.0, 1e-9);
  EXPECT_NEAR(errors.p95, 2 * 72 / 279.0, 1e-9);
  EXPECT_EQ(summary(start_errors(steady, timeline.trace, 1)).p95, 0);
}

// One rank, F and B of four micro-batches, 10 ms each; the last takes 30, then 31 ms.
TEST(Interruptions, AreActionsAboveThriceTheirMedian) {
  RankTimeline rank{"rank 0", {1, 2}, {}};
  for (const double last : {0.030, 0.031}) {
    RankIteration one;
    for (int m = 0; m < 4; ++m) {
      one.forward_start.emplace_back(0.01 * m);
      one.forward_end.emplace_back(0.01 * (m + 1));
      one.backward_start.emplace_back(0.04 + 0.01 * m);
      one.backward_end.emplace_back(0.04 + 0.01 * m + (m == 3 ? last : 0.01));
    }
    one.total = one.backward_end.back();
    rank.iterations.push_back(one);
  }
  const std::vector<Interruption> found = interruptions(make_timeline({rank}).trace);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(describe(found[0]), "0B3 took 31 ms where its rank's median is 10 ms");
  EXPECT_FALSE(is_interrupted(found, 0));
  EXPECT_TRUE(is_interrupted(found, 1));
}

}  // namespace
}  // namespace weir::timeline_test
