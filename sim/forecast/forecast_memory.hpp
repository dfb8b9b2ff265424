// Memory of a forecast: peaks, how far they may be off, and what other software would hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/job/stack.hpp"
#include "plan/model/model_part.hpp"
#include "sim/forecast/forecast_record.hpp"
#include "sim/software_parts.hpp"

namespace weir {

// Where sequences have devices of their own: the plan of the one that fills a device most, and what
// the stack keeps of its layers. Its schedule, and so its step, are the plan's.
struct HeldSequence {
  ResolvedPlan plan;
  std::shared_ptr<const ModelPart> part;
};
[[nodiscard]] std::optional<HeldSequence> fullest_sequence(const ResolvedPlan& loaded,
                                                           const Stack& stack);

// Peaks by the tensors' count, then what measured memory says of them.
void add_memory(Forecast& f, const ResolvedPlan& loaded, const Costs& costs, const Cluster& cluster,
                std::vector<RankMemory> counted);

// Whether the plan surely fits by what the stack itself may hold.
[[nodiscard]] bool surely_within(const Forecast& f, Bytes limit);

// Peaks of one step by the rules of memory of a stack that keeps this of the layers.
using PeaksBy = std::function<std::vector<RankMemory>(const Stack& stack, const ModelPart& part)>;

// Where software was not named, what it may hold at most and, where that is asked for, at least.
// The times stay, and with them the step that the peaks are of.
void add_software_bounds(Forecast& f, const ResolvedPlan& loaded, const SoftwareParts& parts,
                         const Stack& stack, bool with_least, const PeaksBy& peaks);

}  // namespace weir
