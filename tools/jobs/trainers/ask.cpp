// The tables asked: which rows hold for a plan, and which of them refuse it.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/trainers/ask.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plan/words/error.hpp"
#include "tools/jobs/job/offload_modules.hpp"
#include "tools/jobs/trainers/tables.hpp"

namespace weir {
namespace {

// Latent attention, groups of experts, shared ones, a router's bias, and angles as Llama 3.1's.
bool has_recent_words(const TransformerShape& block) {
  if (block.latent.key_value > 0) return true;
  const bool router = block.expert_groups > 0 || block.shared_ffn > 0 || block.shared_gate ||
                      (block.experts > 1 && block.router_bias);
  return router || (block.rotary && block.angles.scaling == RotaryScaling::llama3);
}

// The plan's own word that a row is about.
std::string word_of(const TrainerFacts& facts, std::string_view key) {
  const Plan& plan = facts.plan;
  if (key == "schedule") return plan.schedule;
  if (key == "microbatches") return fmt::format("M = {}, K = {}", plan.microbatches, plan.pp);
  if (key == "zero") return fmt::format("ZeRO {}", plan.zero);
  if (key == "prediction_layers") return fmt::to_string(plan.prediction_layers);
  if (key == "zero_shards") return fmt::to_string(plan.zero_shards);
  if (key == "zero_secondary") return fmt::to_string(plan.zero_secondary);
  if (key == "offload_optimizer") return fmt::to_string(plan.offload_optimizer);
  if (key == "offload_activations") return fmt::to_string(plan.offload_activations);
  if (key == "overlap_experts") return "true";
  if (key == "cuda_graphs") return to_string(plan.cuda_graphs);
  if (key == "optimizer") return std::string(to_string(plan.optimizer.kind));
  if (key == "vpp") return fmt::format("v = {}", plan.vpp);
  if (key == "lora") return fmt::format("rank {}", plan.lora.rank);
  if (key == "frozen") return layers_word(plan.frozen);
  if (key == "boundaries") return fmt::format("[{}]", fmt::join(plan.boundaries, ","));
  if (key == "fp8") return std::string(to_string(plan.fp8));
  if (key == "lengths") {
    const SequenceLengths& lengths = plan.lengths;
    return lengths.dynamic_cp > 0 ? fmt::format("dynamic_cp = {}", lengths.dynamic_cp)
                                  : std::string(to_string(lengths.rows));
  }
  if (key == "recompute") return recompute_word(plan.recompute);
  if (key == "expert_dispatch") return std::string(to_string(plan.expert_dispatch));
  if (key == "etp") return fmt::to_string(plan.etp);
  if (key == "overlap_tensor_parallel" || key == "fp8_parameters") return "true";
  return "";
}

}  // namespace

std::string_view to_string(Trainer trainer) {
  switch (trainer) {
    case Trainer::megatron:
      return "megatron";
    case Trainer::fork:
      return "megatron-fork";
    case Trainer::torchtitan:
      return "torchtitan";
    case Trainer::torchtitan_0_2:
      return "torchtitan-0.2";
    case Trainer::torch:
      return "torch";
    case Trainer::deepspeed:
      break;
  }
  return "deepspeed";
}

bool is_llamas(const TransformerShape& block) {
  return block.gated && block.rotary && block.norm == NormKind::rms_norm && block.experts == 1;
}

TrainerFacts facts_of(const ResolvedPlan& plan) {
  TrainerFacts facts{.plan = plan.plan, .placement = placement_of(plan.schedule.shape)};
  facts.copies = plan.schedule.shape.replicas > 1 || plan.schedule.shape.segments > 1;
  bool tied = false, llama = true, dense = false;
  for (const Layer& layer : plan.model.layers) {
    const auto* embedding = std::get_if<EmbeddingShape>(&layer.shape);
    tied = tied || (embedding != nullptr && embedding->tied);
    facts.recent_model = facts.recent_model || (embedding != nullptr && embedding->norm);
    const auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block == nullptr) continue;
    llama = llama && is_llamas(*block);
    facts.recent_model = facts.recent_model || has_recent_words(*block);
    facts.latent_attention = facts.latent_attention || block->latent.key_value > 0;
    dense = dense || block->experts == 1;
    if (block->experts == 1) continue;
    facts.experts = true;
    facts.router_pre_softmax = facts.router_pre_softmax || block->router_pre_softmax;
  }
  facts.recent_model = facts.recent_model || (dense && facts.experts);
  facts.tied_llama = tied && llama;
  facts.offloadable = offloadable_share(plan.model, plan.plan.recompute);
  if (const auto blocks = blocks_of_boundaries(plan.plan, plan.model)) {
    facts.equal_stages =
        std::ranges::all_of(*blocks, [&](int count) { return count == blocks->front(); });
  }
  facts.predicting_parted =
      predicting_blocks(plan.model) > 0 && !predicting_stage(plan.plan, plan.model);
  // The head is the last layer, the norm the one before.
  const std::vector<int>& boundaries = plan.plan.boundaries;
  const auto head = static_cast<int>(plan.model.layers.size()) - 1;
  facts.norm_alone = is_language_model(plan.model) && boundaries.size() > 1 &&
                     boundaries.back() == head && boundaries[boundaries.size() - 2] == head - 1;
  return facts;
}

std::span<const TrainerRow> rows_of(Trainer trainer) {
  switch (trainer) {
    case Trainer::megatron:
      return megatron_rows();
    case Trainer::fork:
      return megatron_fork_rows();
    case Trainer::torchtitan:
      return torchtitan_rows();
    case Trainer::torchtitan_0_2:
      return torchtitan_0_2_rows();
    case Trainer::torch:
      return torch_rows();
    case Trainer::deepspeed:
      break;
  }
  return deepspeed_rows();
}

std::vector<const TrainerRow*> rows_that_hold(Trainer trainer, RowKind kind,
                                              const TrainerFacts& facts) {
  std::vector<const TrainerRow*> rows;
  for (const TrainerRow& row : rows_of(trainer)) {
    if (row.kind == kind && row.holds(facts)) rows.push_back(&row);
  }
  return rows;
}

std::string row_name(Trainer trainer, const TrainerRow& row) {
  return fmt::format("row {}/{}", to_string(trainer), row.name);
}

const TrainerRow* refused_by(Trainer trainer, const TrainerFacts& facts, const Allowed& allowed) {
  for (const TrainerRow& row : rows_of(trainer)) {
    const bool refuses =
        row.kind == RowKind::lacks || (row.kind == RowKind::other_order && !allowed.other_schedule);
    if (refuses && row.holds(facts)) return &row;
  }
  return nullptr;
}

void require_trainer_runs(Trainer trainer, const ResolvedPlan& plan, const Allowed& allowed) {
  const TrainerFacts facts = facts_of(plan);
  const TrainerRow* row = refused_by(trainer, facts, allowed);
  if (row == nullptr) return;
  const std::string word = word_of(facts, row->key);
  throw InputError(
      "plan", std::string(row->key),
      fmt::format("{}{}{} ({}){}", word, word.empty() ? "" : ": ", row->says,
                  row_name(trainer, *row),
                  row->kind == RowKind::other_order
                      ? ": --allow-other-schedule writes it all the same, to run in that order"
                      : ""));
}

}  // namespace weir
