// From the partition that evens out the stages to the one that makes the step shortest: not the
// same where stages differ or messages take time (docs/theory.md 4.2).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "costmodel/table/layer_costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "sim/engine/compiled_program.hpp"

namespace weir {

struct Refined {
  std::vector<int> boundaries;
  int evaluated = 0;                    // partitions whose step time was computed
  bool optimal = false;                 // they were all there are
  std::optional<Nanoseconds> makespan;  // the shortest of them; none where there is none to compute
};

struct RefineLimits {
  std::vector<std::vector<int>> starts{};  // to begin with the best of, beside the plan's own
  std::function<bool(const std::vector<int>&)> allowed{};  // none: all partitions are
  // The search ends after so many operations of the program, over all partitions evaluated.
  std::int64_t operations = std::numeric_limits<std::int64_t>::max();
  std::function<bool()> over{};  // or from when this says so
};

// Where there are at most 128 partitions, the one with the shortest step. Otherwise a descent from
// the plan's boundaries: of all partitions that differ by one layer moved across one boundary, the
// one with the shortest step, until none is shorter; a local optimum. Never worse than where it
// began. Step times are the compiled engine's, exact for private links; ties keep the earlier
// partition, and equal neighbours go to the lowest boundary moved down first.
[[nodiscard]] Refined refine_boundaries(const ResolvedPlan& resolved, const LayerCosts& known,
                                        const Cluster& cluster, const RefineLimits& limits = {});
// The same where the plan's program is compiled already; null: it cannot be.
[[nodiscard]] Refined refine_boundaries(const ResolvedPlan& resolved,
                                        const CompiledProgram* compiled, const LayerCosts& known,
                                        const Cluster& cluster, const RefineLimits& limits = {});

}  // namespace weir
