// Holds plans to a stack's abilities.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/stack_abilities.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace weir {
namespace {

template <class Value>
bool has(const std::vector<Value>& all, const Value& one) {
  return all.empty() || std::ranges::find(all, one) != all.end();
}

bool has_tied_head(const Model& model) {
  return std::ranges::any_of(model.layers, [](const Layer& layer) {
    const auto* head = std::get_if<HeadShape>(&layer.shape);
    return head != nullptr && head->tied;
  });
}

}  // namespace

StackAbilities abilities_for(StackAbilities all, const Model& model) {
  // The key is set anew, so that from here on only a tied head leaves it false: it says why there
  // is no pipeline.
  if (has_tied_head(model)) {
    all.pipeline = all.pipeline && all.tied_pipeline;
  } else {
    all.tied_pipeline = true;
  }
  return all;
}

std::optional<std::string> order_beyond(const StackAbilities& abilities, const Plan& plan) {
  if (plan.pp == 1) return std::nullopt;  // one rank has no order to choose
  if (!has(abilities.schedules, plan.schedule)) return fmt::format("schedule {}", plan.schedule);
  // Software that names its schedules runs those of several stages with several alone: with one
  // Megatron-Core takes 1f1b, and torchtitan refuses (distributed/pipeline_parallel.py).
  constexpr std::array kOfSeveral{"interleaved-1f1b", "interleaved-zb", "looped-bfs"};
  if (!abilities.schedules.empty() && plan.vpp == 1 &&
      std::ranges::find(kOfSeveral, plan.schedule) != kOfSeveral.end()) {
    return fmt::format("schedule {} with one stage a rank", plan.schedule);
  }
  if (abilities.whole_rounds && plan.vpp > 1 && plan.microbatches % plan.pp != 0) {
    return fmt::format("{} micro-batches with v = {}, which are no multiple of {} ranks",
                       plan.microbatches, plan.vpp, plan.pp);
  }
  return std::nullopt;
}

std::optional<std::string> degrees_beyond(const StackAbilities& abilities, const Plan& plan) {
  const bool pipeline = plan.pp > 1;
  if (pipeline && !abilities.pipeline) {
    return fmt::format("a pipeline of {} ranks{}", plan.pp,
                       abilities.tied_pipeline ? "" : " with a tied head");
  }
  if (!has(pipeline ? abilities.zero : abilities.zero_without_pipeline, plan.zero))
    return fmt::format("ZeRO stage {} {} a pipeline", plan.zero, pipeline ? "in" : "without");
  if (!has(abilities.recompute, plan.recompute.mode))
    return fmt::format("re-materialisation {}", to_string(plan.recompute.mode));
  // Where neither ranks nor replicas are several, both orders are the same.
  if (pipeline && plan.dp > 1 && !has(abilities.rank_orders, plan.rank_order))
    return fmt::format("rank order {}", to_string(plan.rank_order));
  if (plan.overlap_grad_reduce && plan.replicas() > 1 && !abilities.overlap_grad_reduce)
    return "a reduction of gradients beside the backward";
  if (!plan.cuda_graphs.none() && !abilities.cuda_graphs) return "CUDA graphs";
  if (plan.cp > 1 && !abilities.context_parallel) return "context parallelism";
  if (plan.lengths.dynamic_cp > 0 && !abilities.dynamic_cp)
    return "context parallelism by each sequence's length";
  if (plan.offload_optimizer > 0 && !abilities.offload_optimizer)
    return "optimizer's state with the host";
  if (plan.offload_activations > 0 && !abilities.offload_activations)
    return "what blocks keep with the host";
  return std::nullopt;
}

std::optional<std::string> beyond(const StackAbilities& abilities, const Plan& plan) {
  const auto order = order_beyond(abilities, plan);
  return order ? order : degrees_beyond(abilities, plan);
}

}  // namespace weir
