// The memory forecast for convolutional networks is what the executor's arena gives out.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/exec/peaks.hpp"
#include "tests/exec/tiny_cnn.hpp"

namespace weir::cell_memory_test {
namespace {

// Within 1 %, and `messages`, which are large beside so small a model: whether one arrives a moment
// before or after another tensor is released is timing.
void expect_peaks_are_the_arenas(const TinyModel& model,
                                 const std::vector<std::vector<int>>& partitions,
                                 std::int64_t messages = 1) {
  for (const std::vector<int>& boundaries : partitions) {
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
      for (const char* words : kModes) {
        Plan plan = model.plan(boundaries, 6, schedule);
        plan.recompute = mode(words);
        const ResolvedPlan loaded = model.load(plan);
        const RunResult result = run(loaded, traced_steps(3), cpu_only());
        const auto peaks = peaks_of_all_steps(loaded, result);
        std::int64_t message = 0;
        for (const StagePart& stage : loaded.stages)
          message = std::max(message, stage.input_bytes * plan.micro_batch_size);
        for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
          const auto measured = static_cast<double>(result.peak_memory[rank].count());
          const auto predicted = static_cast<double>(peaks[rank].peak.count());
          EXPECT_NEAR(predicted, measured,
                      0.01 * measured + static_cast<double>(messages * message))
              << "K" << plan.pp << " " << schedule << " " << words << " rank " << rank;
        }
      }
    }
  }
}

TEST(CellMemory, OfAResNetIsTheArenas) {
  expect_peaks_are_the_arenas(TinyModel(tiny_resnet()), {{}, {3}, {2, 4}});
}

// Its messages are its stashed maps too: both that an edge has slots for may have come.
TEST(CellMemory, OfAUNetIsTheArenas) {
  expect_peaks_are_the_arenas(TinyModel(tiny_unet()), {{}, {3}, {1, 2, 4}}, 2);
}

// The rank between two others waits for a message of each.
TEST(CellMemory, OfAnAmoebaNetIsTheArenas) {
  expect_peaks_are_the_arenas(TinyModel(tiny_amoebanet()), {{}, {4}, {3, 6}}, 2);
}

}  // namespace
}  // namespace weir::cell_memory_test
