// Two small blocks on an H100, with experts or without, and plans of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <variant>

#include "costmodel/table/builtin.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir::small_blocks {

inline constexpr std::int64_t kRow = 1024;

inline Model small(std::int64_t experts, std::int64_t shared = 0) {
  TransformerShape block{.hidden = 256,
                         .heads = 4,
                         .kv_heads = 4,
                         .head_dim = 64,
                         .ffn = 1024,
                         .attention = AttentionKind::fused};
  block.experts = experts;
  block.shared_ffn = shared;
  block.experts_per_token = experts > 1 ? 2 : 1;
  Model model;
  model.layers = {{"embedding", EmbeddingShape{.vocabulary = 1024, .hidden = 256}, ""},
                  {"block.0", block, ""},
                  {"block.1", block, ""},
                  {"norm", NormShape{.hidden = 256}, ""},
                  {"head", HeadShape{.vocabulary = 1024, .hidden = 256}, ""}};
  return model;
}
inline Plan plan_of(int dp) {
  Plan plan;
  plan.seq_length = kRow;
  plan.dtype = Dtype::bf16;
  plan.attention = AttentionKind::fused;
  plan.microbatches = 4;
  plan.dp = dp;
  return plan;
}
inline ResolvedPlan resolved(const Plan& plan, std::int64_t experts = 1, std::int64_t shared = 0) {
  return derive(plan, small(experts, shared),
                std::get<Schedule>(make_schedule(
                    plan.schedule, {plan.pp, plan.vpp, plan.microbatches, plan.slices})));
}
inline Stack megatron() {
  return load_stack(WEIR_SOURCE_DIR "/tools/examples/stacks/megatron-core.json");
}
inline Cluster h100() {
  return load_cluster(WEIR_SOURCE_DIR "/tools/examples/clusters/dgx-h100.json");
}
inline Costs builtin(const ResolvedPlan& loaded) {
  return builtin_costs(loaded.model, kRow, Dtype::bf16, h100(), {loaded.plan.split()});
}

}  // namespace weir::small_blocks
