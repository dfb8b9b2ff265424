// What is forecast of the memory of all steps that a run took.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "costmodel/memory/memory.hpp"
#include "exec/run/run_result.hpp"
#include "plan/job/resolve.hpp"

namespace weir {

// By rank. The arena's mark is that of all steps, and each has times of its own: a message that one
// finds early another does not. So the run is one without warm-up, whose every step is traced.
inline std::vector<RankMemory> peaks_of_all_steps(const ResolvedPlan& loaded,
                                                  const RunResult& result) {
  const std::size_t size = loaded.program.size();
  EXPECT_EQ(result.trace.spans.size(), size * result.steps.size()) << "steps without a trace";
  std::vector<RankMemory> most;
  for (std::size_t first = 0; first + size <= result.trace.spans.size(); first += size) {
    const std::span<const Span> spans(result.trace.spans.data() + first, size);
    const auto peaks = memory_peaks(loaded, loaded.program, spans, result.scratch);
    if (most.empty()) most = peaks;
    for (std::size_t rank = 0; rank < most.size(); ++rank) {
      if (peaks[rank].peak > most[rank].peak) most[rank] = peaks[rank];
    }
  }
  return most;
}

// As many steps, each traced.
inline RunOptions traced_steps(int count) {
  RunOptions options;
  options.steps = count;
  options.warmup_steps = 0;
  options.trace = true;
  return options;
}

}  // namespace weir
