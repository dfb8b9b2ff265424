// Where a step's time goes: what the model's FLOPs would take at the device's peak, what kernels
// lose against it, what is sent, what is computed again, and why ranks stand idle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "costmodel/table/cost_breakdown.hpp"
#include "plan/job/resolve.hpp"
#include "plan/words/units.hpp"
#include "sim/forecast/forecast.hpp"

namespace weir {

struct StepShare {
  std::string_view name;  // see waterfall()
  Nanoseconds time{0};
  bool operator==(const StepShare&) const = default;
};

// The parts, a mean over ranks, sum to the step's time to the nanosecond:
//   useful_at_peak   the model's FLOPs at the device's peak: the step times the forecast's MFU
//   kernels          what the layers' kernels take beyond it, launches counted in; below 0 where
//                    they do less than the model's count (a causal core's masked half)
//   compute          in place of both where the device's peak, or the FLOPs, are not known
//   rematerialised   what the backward computes again
//   tensor, context  collectives of tensor and sequence, and of context parallelism
//   experts          tokens on their way to experts and back
//   replicas         ZeRO's and the reduction of gradients, tied ones too, where ranks wait for it
//   messages         between stages, where ranks wait for them
//   fill, drain, imbalance   idle time by cause (docs/design.md 9)
//   offload          copies to and from the host's memory that nothing hides, and what the host
//                    updates of the optimizer's state
//   host             calls that keep a device waiting
//   contention       what transfers beside them and shared devices slow compute down
//   update           of the parameters
//   end              from a rank's last action to the end of the step
struct Waterfall {
  Nanoseconds step{0};
  std::vector<StepShare> parts;
  [[nodiscard]] Nanoseconds of(std::string_view name) const;  // 0 of a part that is not there
};

// A part's name, or a cause's of a gap (sim/explain/gap), for people: "kernels, beyond the peak".
[[nodiscard]] std::string_view part_in_words(std::string_view name);

// `forecast` is of this plan, with buffered transfers; `costs` those of its stages.
[[nodiscard]] Waterfall waterfall(const ResolvedPlan& resolved, const CostBreakdown& costs,
                                  const ForecastResult& forecast);

}  // namespace weir
