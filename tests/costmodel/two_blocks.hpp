// A pipeline of two equal blocks and its costs: worked examples of what prices and fits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <variant>

#include "costmodel/layers/layer_key.hpp"
#include "costmodel/table/costs.hpp"
#include "plan/job/resolve.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir {

inline Layer block() {
  return {"b", TransformerShape{.hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .ffn = 32},
          ""};
}

// F 1 ms and B 2 ms for a sample, 2.5 and 6.5 ms for four; I half of B, the optimizer 0.1 ms.
inline Costs costs_of(const Layer& layer, std::int64_t tokens) {
  Costs costs;
  costs.basis = Basis::measured;
  LayerCost cost;
  cost.key = layer_key(layer, tokens, Dtype::fp32);
  cost.by_batch[1] = {{Seconds(1e-3), Seconds(1e-3), Seconds(1e-3), Seconds(2e-3)}, 0, Bytes(64)};
  cost.by_batch[4] = {
      {Seconds(2.5e-3), Seconds(3e-3), Seconds(3e-3), Seconds(6.5e-3)}, 0, Bytes(128)};
  cost.optimizer = Seconds(1e-4);
  costs.layers.push_back(cost);
  costs.link = {Seconds(2e-6), BytesPerSecond(1e9)};
  return costs;
}

// 1F1B of four micro-batches; K = 2 with a block a stage.
inline ResolvedPlan two_blocks(int k, int batch) {
  Model model;
  model.layers = {block(), block()};
  model.family = "layers";
  Plan plan;
  plan.seq_length = 4;
  plan.pp = k;
  plan.microbatches = 4;
  plan.micro_batch_size = batch;
  if (k == 2) plan.boundaries = {1};
  return derive(plan, model, std::get<Schedule>(make_schedule("1f1b", {k, 1, 4})));
}

}  // namespace weir
