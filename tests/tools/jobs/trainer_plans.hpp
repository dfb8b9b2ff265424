// The smallest plans of their classes, which tests of the trainers' tables change.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/plan/complaint.hpp"
#include "tests/tools/jobs/exported_plan.hpp"
#include "tools/jobs/job/export.hpp"

namespace weir::trainer_plans {

// One rank, 8 blocks; each test makes it the smallest of its class.
inline Plan small() {
  Plan plan;
  plan.seq_length = 128;
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  plan.schedule = "1f1b";
  plan.microbatches = 4;
  return plan;
}
inline Plan pipeline(int ranks, int chunks, int microbatches) {
  Plan plan = small();
  plan.pp = ranks;
  plan.vpp = chunks;
  plan.microbatches = microbatches;
  plan.schedule = chunks > 1 ? "interleaved-1f1b" : "1f1b";
  const int each = 8 / plan.stages();
  for (int s = 1; s < plan.stages(); ++s) plan.boundaries.push_back(1 + s * each);
  return plan;
}
inline std::string megatron(const Plan& plan, const Allowed& allowed = {}) {
  return export_megatron(loaded(plan, llama_like(8)), {.allowed = allowed}).files[0].text;
}
inline std::string refusal(const Plan& plan, const Allowed& allowed = {}) {
  return complaint([&] { static_cast<void>(megatron(plan, allowed)); });
}

inline Model with_experts(int blocks) {
  Model model = llama_like(blocks);
  for (Layer& layer : model.layers) {
    if (auto* block = std::get_if<TransformerShape>(&layer.shape)) {
      block->experts = 8;
      block->experts_per_token = 2;
    }
  }
  return model;
}

}  // namespace weir::trainer_plans
