// What /proc/stat says of the cores in use, and what follows between two moments.
// SPDX-License-Identifier: Apache-2.0
#include "exec/device/core_use.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>

#include "exec/device/cores.hpp"

namespace weir::core_use_test {
namespace {

// A tick is 10 ms here. cpu1: 100 + 20 + 30 + 4 + 6 = 160 ticks of work, 50 stolen; idle and iowait
// are nobody's. cpu2: 10 and 5. "cpu10" is not "cpu1", and the first line is of all cores.
constexpr const char* kStat =
    "cpu  9999 0 0 0 0 0 0 0 0 0\n"
    "cpu0 7 7 7 7 7 7 7 7 0 0\n"
    "cpu1 100 20 30 4000 500 4 6 50 77 8\n"
    "cpu2 10 0 0 0 0 0 0 5 0 0\n"
    "cpu10 1000 0 0 0 0 0 0 0 0 0\n"
    "intr 1 2 3\n";

TEST(CoreUse, AddsTheCoresInUse) {
  const auto times = core_times(kStat, {1, 2}, 100);
  ASSERT_TRUE(times);
  EXPECT_DOUBLE_EQ(times->worked.count(), 1.7);
  EXPECT_DOUBLE_EQ(times->stolen.count(), 0.55);
  EXPECT_FALSE(core_times(kStat, {1, 3}, 100));  // no cpu3
  EXPECT_FALSE(core_times("cpu1 1 2 3\n", {1}, 100));
  EXPECT_FALSE(core_times("", {0}, 100));
}

// Two cores for 10 s: 16 s of work, of which 9 are this process's, and 2 s stolen. So others had
// (16 - 9 + 2) / 10 of a core, the hypervisor 2 / 20 of the time; 450 preemptions in 9 s are 50 a
// second.
TEST(CoreUse, TellsOwnWorkFromThatOfOthers) {
  CoreUse before{.at = Seconds(5),
                 .cores = 2,
                 .all = CoreTimes{Seconds(100), Seconds(1)},
                 .own = Seconds(3),
                 .preemptions = 50};
  CoreUse after{.at = Seconds(15),
                .cores = 2,
                .all = CoreTimes{Seconds(116), Seconds(3)},
                .own = Seconds(12),
                .preemptions = 500};
  EXPECT_DOUBLE_EQ(cores_of_others(before, after).value(), 0.9);
  const Disturbance found = disturbance_between(before, after);
  EXPECT_DOUBLE_EQ(found.stolen.value(), 0.1);
  EXPECT_DOUBLE_EQ(found.preemptions_per_s, 50);
  EXPECT_EQ(found.watched, Seconds(10));
  EXPECT_EQ(found.worked, Seconds(9));
  after.all->stolen = Seconds(0.5);  // less than before
  EXPECT_EQ(disturbance_between(before, after).stolen.value(), 0);
  after.all.reset();
  EXPECT_FALSE(cores_of_others(before, after));
  EXPECT_FALSE(disturbance_between(before, after).stolen);
}

TEST(CoreUse, ThisMachineCounts) {
  const CoreUse before = core_use();
  volatile double sum = 0;
  while ((core_use().own - before.own).count() < 0.05) sum = sum + 1;
  const CoreUse after = core_use();
  EXPECT_EQ(after.cores, available_cores());
  EXPECT_GE((after.own - before.own).count(), 0.05);
  EXPECT_GT(after.at, before.at);
  EXPECT_FALSE(core_use("/nowhere/stat").all);
}

// Ranks of PyTorch are processes that the measuring one starts and waits for: what they computed
// counts once they have ended.
TEST(CoreUse, EndedChildrenCount) {
  const CoreUse before = core_use();
  const pid_t child = ::fork();
  if (child == 0) {
    volatile double sum = 0;
    while (std::clock() < CLOCKS_PER_SEC / 10) sum = sum + 1;
    ::_exit(0);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_GE((core_use().own - before.own).count(), 0.09);
}

}  // namespace
}  // namespace weir::core_use_test
