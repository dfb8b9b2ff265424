// A disturbed machine is said: by what a use case notes of synthetic counters, and by the command
// beside a neighbour that computes without end on the same core. Undisturbed runs are not asserted:
// nobody knows what else this machine does.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/machine/watch.hpp"

#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "exec/device/cores.hpp"
#include "tests/tools/commands/command.hpp"
#include "tools/app/calibrate/fit_doubts.hpp"

namespace weir::watch_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Json = nlohmann::json;

class Noted {
 public:
  Noted() {
    session.note = [this](const std::string& line) { lines.push_back(line); };
  }
  std::vector<std::string> lines;
  app::Session session;
};

TEST(Watch, NotesADoubtInOneLine) {
  Noted noted;
  app::note_disturbance({Seconds(3), Seconds(3), 0.0, 2, 0.01}, "of no use", noted.session);
  EXPECT_THAT(noted.lines, IsEmpty());
  app::note_disturbance({Seconds(3), Seconds(3), 0.25, 2, 1.7}, "of no use", noted.session);
  EXPECT_THAT(
      noted.lines,
      ElementsAre("the machine was disturbed: 25.0% of its cores' time was stolen, repeated "
                  "times spread by 170%; of no use (--wait-for-quiet waits)"));
}

// Plans whose steps spread by 0, 0.5 and 2: the middle one tells of all; of two steps nothing is.
TEST(Watch, OneBadPlanIsNoDoubt) {
  EXPECT_DOUBLE_EQ(app::typical_spread({{1, 1, 1}, {2, 3, 2, 3, 3}, {1, 1, 3, 3, 3}}).value(), 0.5);
  EXPECT_FALSE(app::typical_spread({{1, 9}, {1}}));
}

TEST(Watch, QuietIsATenthOfACoreOrAHundredthOfAll) {
  EXPECT_TRUE(app::is_quiet(0.09, 2));
  EXPECT_FALSE(app::is_quiet(0.11, 2));
  EXPECT_TRUE(app::is_quiet(1.2, 128));
  EXPECT_FALSE(app::is_quiet(1.3, 128));
}

TEST(Watch, AFactorOfTwoPointSevenIsAskedAbout) {
  Noted noted;
  app::doubt_far_fits({{"OPTIMIZER", 2.7, 4, 0.01}, {"F", 1.2, 4, 0.01}, {"B", 2.7, 4, 0.01}},
                      app::kOtherWork, noted.session);
  EXPECT_THAT(noted.lines,
              ElementsAre("B took 2.70 times what its costs forecast: was the profile, or a run, "
                          "made while other work ran?"));
}

// This process, and those it starts, on one core, with another that computes there all the while.
class BesideANeighbour : public InFolder {
 protected:
  BesideANeighbour() {
    ::sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(usable_cores().front(), &one);
    ::sched_setaffinity(0, sizeof(one), &one);
    neighbour_ = ::fork();
    if (neighbour_ == 0) {
      ::alarm(300);  // where nobody ends it
      for (volatile double sum = 0;;) sum = sum + 1;
    }
    write("model.json",
          R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 64,
              "n_positions": 32})");
    EXPECT_EQ(weir("-q plan model.json -K 1 -M 8 -o plan.json").code, 0);
  }
  ~BesideANeighbour() override {
    ::kill(neighbour_, SIGKILL);
    ::waitpid(neighbour_, nullptr, 0);
    ::sched_setaffinity(0, sizeof(before_), &before_);
  }

 private:
  cpu_set_t before_{};
  pid_t neighbour_ = 0;
};

TEST_F(BesideANeighbour, ARunSaysThatItWasDisturbed) {
  // As many steps as take a second, from which on there is a doubt.
  Json found;
  for (int steps = 200; steps <= 3200; steps *= 4) {
    const CommandResult run =
        weir("--json run plan.json -o out --steps " + std::to_string(steps) + " 2> notes");
    ASSERT_EQ(run.code, 0) << run.out;
    found = Json::parse(run.out)["disturbance"];
    if (found["disturbed"] == true) break;
  }
  EXPECT_EQ(found["disturbed"], true) << found;
  EXPECT_THAT(read("notes"), HasSubstr("weir: the machine was disturbed: "));
  // Its trace keeps that, and who learns from it is told so.
  const CommandResult learnt =
      weir("calibrate out/measured.json --cluster dgx-a100 --costs out/none.json");
  EXPECT_EQ(learnt.code, 3);
  EXPECT_THAT(learnt.out, HasSubstr("out/measured.json: measured on a disturbed machine ("));
}

// Seconds of work, for there is no doubt below one.
TEST_F(BesideANeighbour, AProfileAndATuningSayThatTheyWereDisturbed) {
  write("model.json",
        R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 64, "vocab_size": 256,
            "n_positions": 64})");
  const CommandResult profile = weir("profile model.json -o profile.json");
  EXPECT_EQ(profile.code, 0) << profile.out;
  EXPECT_THAT(profile.out, HasSubstr("; forecasts by this profile inherit it (--wait-for-quiet"));
  const CommandResult tuned =
      weir("tune model.json -K 1 --global-batch-size 4 --plans 1 --steps 80 -o tuned");
  EXPECT_EQ(tuned.code, 0) << tuned.out;
  EXPECT_THAT(tuned.out, HasSubstr("; what is learnt from these runs is as doubtful"));
}

TEST_F(BesideANeighbour, WaitingForAQuietMachineEnds) {
  const CommandResult run = weir("run plan.json --steps 1 --wait-for-quiet 1");
  EXPECT_EQ(run.code, 0) << run.out;
  if (run.out.find("this kernel does not say") != std::string::npos) GTEST_SKIP() << run.out;
  EXPECT_THAT(run.out, HasSubstr("weir: waited 1 s, and other work still keeps "));
}

// The number may be left out: the next word is no number, and is the plan's.
TEST_F(InFolder, SecondsToWaitMayBeLeftOut) {
  const CommandResult none = weir("run --wait-for-quiet none.json");
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.out, HasSubstr("none.json: cannot be read"));
  EXPECT_EQ(weir("run plan.json --wait-for-quiet=soon").code, 2);
  EXPECT_THAT(weir("profile --wait-for-quiet=-1 none.json").out, HasSubstr("expected a number"));
}

}  // namespace
}  // namespace weir::watch_test
