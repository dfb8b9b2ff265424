// Plans for the tests of exporters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "plan/schedule/generators/generators.hpp"
#include "tools/jobs/job/export.hpp"

namespace weir {

// A plan as its exporters take it: with its model, and the schedule that its name makes.
inline ResolvedPlan loaded(Plan plan, Model model) {
  auto made = make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches, plan.slices});
  return derive(std::move(plan), std::move(model), std::get<Schedule>(std::move(made)));
}

inline Model llama_like(int blocks) {
  Decoder d;
  d.embedding = {.vocabulary = 1024, .hidden = 64};
  d.block = {.hidden = 64, .heads = 8, .kv_heads = 2, .head_dim = 16, .ffn = 192};
  d.block.activation = Activation::silu;
  d.block.norm = NormKind::rms_norm;
  d.block.gated = d.block.rotary = true;
  d.block.output_bias = d.block.mlp_bias = false;
  d.block.norm_epsilon = 1e-6;
  d.blocks = blocks;
  d.norm = {64, NormKind::rms_norm, 1e-6};
  d.head = {.vocabulary = 1024, .hidden = 64};
  Model model = decoder_model(d, 128);
  model.initializer_range = 0.006;
  return model;
}

// K = 2, v = 2 on 8 blocks, unevenly: stages of 1, 3, 3 and 1 blocks begin at layers 2, 5 and 8.
inline Plan example() {
  Plan plan;
  plan.seq_length = 128;
  plan.dtype = Dtype::bf16;
  plan.pp = 2;
  plan.vpp = 2;
  plan.microbatches = 4;
  plan.micro_batch_size = 3;
  plan.tp = 2;
  plan.dp = 4;
  plan.boundaries = {2, 5, 8};
  plan.schedule = "interleaved-1f1b";
  plan.recompute.mode = RecomputeMode::full;
  plan.optimizer = {
      .learning_rate = 3e-4, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-6, .weight_decay = 0.05};
  plan.seed = 77;
  return plan;
}

inline std::vector<std::string> names(const std::vector<Remark>& remarks) {
  std::vector<std::string> all;
  for (const Remark& remark : remarks) all.push_back(remark.name);
  return all;
}

}  // namespace weir
