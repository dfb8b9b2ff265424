// A layout that a stage may have (plan/layout/megatron_cut): what a search over K and layouts
// chooses from in place of free degrees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/job/plan.hpp"
#include "plan/layout/megatron_cut.hpp"

namespace weir {

struct StageLayout {
  std::string name;  // as its file has it; empty: of all that there are
  layout::MegatronCut cut;
  std::optional<int> micro_batch_size;  // that its file's batch is for; none: any
};

// Whether a plan's stages are cut so. A layout that divides nothing of what is kept of weights
// leaves ZeRO's first two stages open. A plan without a micro-batch yet (0) is asked for its
// degrees alone.
[[nodiscard]] inline bool has_layout(const Plan& plan, const StageLayout& layout) {
  const layout::MegatronCut& cut = layout.cut;
  return plan.tp == cut.tp && plan.dp == cut.dp && plan.ep == cut.ep && plan.cp == 1 &&
         plan.sequence_parallel == cut.sequence_parallel &&
         (cut.zero == 0 ? plan.zero != 3 : plan.zero == cut.zero) &&
         (plan.micro_batch_size == 0 ||
          plan.micro_batch_size == layout.micro_batch_size.value_or(plan.micro_batch_size));
}

}  // namespace weir
