// Gradients of a weight that several ranks have are added up on all of them, in one order and in
// pieces.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/shared_gradients.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <memory>
#include <thread>

#include "exec/processes/threads/thread_group.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir::shared_gradients_test {
namespace {

// Stages 0, 1 and 2 on three ranks, a weight on each, the second also used twice on the last: in
// fp32 (a + b) + c, number by number, on all three; longer than two pieces of 2^18.
TEST(SharedGradients, EachRankFindsTheSameSum) {
  const Program program = lower(std::get<Schedule>(make_schedule("gpipe", {3, 1, 1})), {});
  const std::vector<GradientUse> uses{
      {0, Stage{0}, 0}, {1, Stage{1}, 0}, {2, Stage{2}, 0}, {3, Stage{2}, 1}};
  const GradientCopies copies{{uses}, {uses}, {uses, {}}};
  constexpr std::size_t kCount = (std::size_t{1} << 19) + 5;
  const auto number = [](std::size_t use, std::size_t i) {
    return 1.0F / static_cast<float>(3 + use + 7 * (i % 1009));
  };
  ThreadGroup group(3, 1);
  std::vector<std::map<GradientKey, std::vector<float>>> gradients(3);
  for (std::size_t u = 0; u < uses.size(); ++u) {
    std::vector<float>& own =
        gradients[uses[u].stage.position()][{uses[u].stage.value, uses[u].parameter}];
    for (std::size_t i = 0; i < kCount; ++i) own.push_back(number(u, i));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Processes> processes = group.member(rank);
      SharedGradients shared(program, copies, Rank{rank});
      auto& own = gradients[static_cast<std::size_t>(rank)];
      shared.sum({*processes, [](Rank other) { return other.value; },
                  [](const GradientKey& key) { return 10 * key.first + key.second; },
                  [&own](const GradientKey& key) { return std::span(own.at(key)); }});
      EXPECT_EQ(shared.summed(), (std::set<GradientKey>{{rank, 0}}));
      group.leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<float>& sum = gradients[static_cast<std::size_t>(rank)].at({rank, 0});
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(sum[i], ((number(0, i) + number(1, i)) + number(2, i)) + number(3, i))
          << "rank " << rank << ", number " << i;
    }
  }
}

}  // namespace
}  // namespace weir::shared_gradients_test
