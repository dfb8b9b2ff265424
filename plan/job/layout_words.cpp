// Words of a plan, and how many of them differ.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/layout_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plan/job/summary.hpp"
#include "plan/words/names.hpp"

namespace weir {
namespace {

constexpr Names<PlanDistance, 4> kDistances{{{PlanDistance::none, "none"},
                                             {PlanDistance::one_choice, "one_choice"},
                                             {PlanDistance::choices, "choices"},
                                             {PlanDistance::other_job, "other_job"}}};

}  // namespace

LayoutWords layout_words(const Plan& plan, std::string_view model) {
  return {
      {std::string(model), fmt::format("{} devices", plan.devices()),
       fmt::format("batch {} x {}", plan.global_batch_size(), plan.seq_length)},
      {fmt::format("{} {}", to_string(plan.dtype), to_string(plan.attention)),
       fmt::format("tp {}{}", plan.tp, plan.sequence_parallel ? " sp" : ""),
       fmt::format("pp {} at {}", plan.pp, fmt::join(plan.boundaries, ",")),
       fmt::format("vpp {} {}", plan.vpp, plan.schedule), fmt::format("cp {}", plan.cp),
       fmt::format("ep {} {} {}", plan.ep, plan.etp, to_string(plan.expert_dispatch)),
       fmt::format("b {}", plan.micro_batch_size),
       fmt::format("zero {} {}", plan.zero, plan.overlap_grad_reduce), to_text(plan.recompute)}};
}

PlanDistance distance(const LayoutWords& a, const LayoutWords& b) {
  if (a.job != b.job || a.choices.size() != b.choices.size()) return PlanDistance::other_job;
  int differ = 0;
  for (std::size_t w = 0; w < a.choices.size(); ++w) differ += a.choices[w] != b.choices[w] ? 1 : 0;
  if (differ == 0) return PlanDistance::none;
  return differ == 1 ? PlanDistance::one_choice : PlanDistance::choices;
}

std::string_view to_string(PlanDistance distance) { return name_of(kDistances, distance); }

}  // namespace weir
