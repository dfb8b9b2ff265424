// What all exporters share: nodes, placements, blocks of stages, and the remarks that are the same
// for every tool.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/schedule/generators/generators.hpp"
#include "plan/words/error.hpp"

namespace weir {

Nodes nodes_of(const Plan& plan, const ExportOptions& options) {
  const int devices = plan.pp * plan.tp * plan.cp * plan.dp;
  // The largest divisor that fits a node: launchers start equal numbers on every node.
  for (int each = std::min(devices, options.gpus_per_node); each > 1; --each) {
    if (devices % each == 0) return {each, devices / each};
  }
  return {1, devices};
}

std::string torchrun(const Nodes& nodes) {
  return fmt::format(
      "torchrun --nproc_per_node {} --nnodes {}{}", nodes.each, nodes.count,
      nodes.count > 1 ? " --rdzv_backend c10d --rdzv_endpoint \"$MASTER_ADDR:29500\"" : "");
}

ChunkPlacement placement_of(const ScheduleShape& shape) {
  if (shape.replicas > 1 || shape.segments > 1) return ChunkPlacement::other;
  bool looped = true, v_shaped = shape.stages == 2 * shape.ranks;
  for (std::int32_t s = 0; s < shape.stages; ++s) {
    // Looped: 0 1 2 3 0 1 2 3; in a V: 0 1 2 3 3 2 1 0.
    const std::int32_t rank = shape.rank_of(Stage{s}).value;
    looped = looped && rank == s % shape.ranks;
    v_shaped = v_shaped && rank == (s < shape.ranks ? s : shape.stages - 1 - s);
  }
  return looped     ? ChunkPlacement::looped
         : v_shaped ? ChunkPlacement::v_shaped
                    : ChunkPlacement::other;
}

std::optional<Job> own_job(const ResolvedPlan& loaded, std::string_view tool, JobReader read) {
  const SourceJob& own = loaded.plan.job;
  if (own.tool != tool || own.lines.empty()) return std::nullopt;
  JobOptions options{.gpus = own.devices, .model = &loaded.model, .kept = true};
  // Which DeepSpeed's file does not say, nor every model.
  if (tool == "deepspeed") options.given.seq_length = loaded.plan.seq_length;
  return read(job_text(own.lines), kOwnJob, options);
}

ResolvedPlan resolved(const Job& job, const std::string& file) {
  auto made = make_schedule(job.plan.schedule, {job.plan.pp, job.plan.vpp, job.plan.microbatches});
  auto* schedule = std::get_if<Schedule>(&made);
  if (schedule == nullptr)
    throw InputError(file, "", fmt::format("{}: cannot be made", job.plan.schedule));
  return derive(job.plan, job.model, std::move(*schedule));
}

namespace {

// Which words of a plan another has otherwise.
std::vector<std::string_view> differences(const Plan& a, const Plan& b) {
  std::vector<std::string_view> names;
  const auto compare = [&](std::string_view name, const auto& x, const auto& y) {
    if (!(x == y)) names.push_back(name);
  };
  compare("pp", a.pp, b.pp);
  compare("vpp", a.vpp, b.vpp);
  compare("tp", a.tp, b.tp);
  compare("cp", a.cp, b.cp);
  compare("dp", a.dp, b.dp);
  compare("ep", a.ep, b.ep);
  compare("etp", a.etp, b.etp);
  compare("expert_load", a.expert_load, b.expert_load);
  if (b.expert_dispatch != ExpertDispatch::by_stack)
    compare("expert_dispatch", a.expert_dispatch, b.expert_dispatch);
  compare("microbatches", a.microbatches, b.microbatches);
  compare("micro_batch_size", a.micro_batch_size, b.micro_batch_size);
  compare("seq_length", a.seq_length, b.seq_length);
  compare("dtype", a.dtype, b.dtype);
  compare("prediction_layers", a.prediction_layers, b.prediction_layers);
  compare("prediction_weight", a.prediction_weight, b.prediction_weight);
  compare("fp8", a.fp8, b.fp8);
  compare("fp8_parameters", a.fp8_parameters, b.fp8_parameters);
  compare("lora", a.lora, b.lora);
  compare("frozen", a.frozen, b.frozen);
  compare("attention", a.attention, b.attention);
  compare("sequence_parallel", a.sequence_parallel, b.sequence_parallel);
  compare("overlap_tensor_parallel", a.overlap_tensor_parallel, b.overlap_tensor_parallel);
  compare("overlap_experts", a.overlap_experts, b.overlap_experts);
  compare("zero", a.zero, b.zero);
  compare("zero_shards", a.zero_shards, b.zero_shards);
  compare("zero_secondary", a.zero_secondary, b.zero_secondary);
  compare("cuda_graphs", a.cuda_graphs, b.cuda_graphs);
  compare("lengths", a.lengths, b.lengths);
  compare("offload_optimizer", a.offload_optimizer, b.offload_optimizer);
  // To a thousandth, for a tool says it in numbers of its own; and whether there is any.
  const auto offloaded = [](const Plan& plan) {
    return std::pair(plan.offload_activations > 0, std::llround(plan.offload_activations * 1000));
  };
  compare("offload_activations", offloaded(a), offloaded(b));
  compare("rank_order", a.rank_order, b.rank_order);
  compare("placement", a.placement, b.placement);
  compare("overlap_grad_reduce", a.overlap_grad_reduce, b.overlap_grad_reduce);
  compare("overlap_param_gather", a.overlap_param_gather, b.overlap_param_gather);
  compare("boundaries", a.boundaries, b.boundaries);
  compare("skips", a.skips, b.skips);
  compare("schedule", a.schedule, b.schedule);
  compare("allow_reordered", a.allow_reordered, b.allow_reordered);
  compare("recompute", a.recompute, b.recompute);
  // What nobody chose is no wish.
  if (b.optimizer != Optimizer{} && !same_muon(a.optimizer, b.optimizer))
    names.emplace_back("optimizer");
  return names;
}

// What no exporter has words for: a script without it would train another model.
std::string_view lacking_words(const Decoder& d) {
  const TransformerShape& b = d.block;
  if (b.window > 0 || b.sinks) return "windows or sinks of attention";
  if (b.post_norms || b.single_norm) return "this number of norms";
  if (b.wide_qk_norm) return "norms of all heads' queries and keys together";
  if (b.values_are_keys) return "values that are keys";
  return d.embedding.scale != 1 ? "a scaled embedding" : "";
}

void refuse_without_words(std::string_view what, const std::string& model_path) {
  if (what.empty()) return;
  throw InputError(
      model_path, "layers",
      fmt::format("{} cannot be exported (--patch changes a script of yours that has it)", what));
}

}  // namespace

void require_words(const Decoder& decoder, const std::string& model_path) {
  refuse_without_words(lacking_words(decoder), model_path);
}

Decoder decoder_for_export(const ResolvedPlan& loaded) {
  const auto decoder = as_decoder(loaded.model);
  if (!decoder) {
    throw InputError(loaded.plan.model_path, "layers",
                     "expected an embedding, equal blocks, a norm and a head: other models have no "
                     "arguments there (--patch changes a script of yours that has them)");
  }
  if (decoder->block.latent.key_value > 0)
    refuse_without_words("latent attention", loaded.plan.model_path);
  require_words(*decoder, loaded.plan.model_path);
  return *decoder;
}

std::vector<int> stage_blocks(const ResolvedPlan& loaded, std::vector<Remark>& remarks) {
  Plan plan = loaded.plan;
  // The other tools know embedding, blocks and head; their norm goes with the head.
  const int predicting = predicting_blocks(loaded.model);
  const auto norm = static_cast<int>(loaded.model.layers.size()) - 2 - predicting;
  if (predicting > 0) {
    for (int& boundary : plan.boundaries) boundary = std::min(boundary, norm);
  }
  if (!plan.boundaries.empty() &&
      (plan.boundaries.front() < 1 || plan.boundaries.back() > norm + 1)) {
    throw InputError("plan", "boundaries",
                     "the first stage has the embedding and the last one the head there: neither "
                     "can be empty");
  }
  if (!plan.boundaries.empty() && plan.boundaries.back() > norm) {
    plan.boundaries.back() = norm;
    remarks.push_back(
        {"boundaries",
         "the final norm and the head are on one stage there: the norm moves to the head"});
    if (plan.boundaries.size() > 1 && plan.boundaries[plan.boundaries.size() - 2] == norm) {
      throw InputError("plan", "boundaries", "a stage of the final norm alone cannot be exported");
    }
  }
  auto blocks = blocks_of_boundaries(plan, loaded.model);
  if (!blocks)
    throw InputError(loaded.plan.model_path, "layers",
                     "expected an embedding, blocks, a norm and a head");
  return std::move(*blocks);
}

std::vector<bool> blocks_rebuilt(const ResolvedPlan& loaded, std::string_view tool,
                                 std::vector<Remark>& remarks) {
  const Recompute& recompute = loaded.plan.recompute;
  std::vector<bool> blocks;
  bool others = false;
  for (int l = 0; l < loaded.part->size(); ++l) {
    const LayerPart& layer = loaded.part->layer(l);
    const bool rebuilt = rebuilds(recompute, layer, l);
    const auto* block =
        std::get_if<TransformerShape>(&loaded.model.layers[static_cast<std::size_t>(l)].shape);
    if (block != nullptr && predicts(*block)) continue;
    if (layer.block) {
      blocks.push_back(rebuilt);
    } else {
      others = others || rebuilt;
    }
  }
  if (others) {
    remarks.push_back(
        {"recompute", fmt::format("{}: {} rebuilds blocks alone, no embedding, norm or head",
                                  recompute_word(recompute), tool)});
  }
  return blocks;
}

bool same_muon(const Optimizer& a, const Optimizer& b) {
  if (a.kind != b.kind || a.kind != OptimizerKind::muon) return a.kind == b.kind;
  return a.momentum == b.momentum && a.nesterov == b.nesterov && a.newton_schulz == b.newton_schulz;
}

void remark_differences(const Plan& again, const Plan& wanted, std::vector<Remark>& remarks) {
  for (const std::string_view name : differences(again, wanted)) {
    const bool said =
        std::ranges::any_of(remarks, [&](const Remark& r) { return r.name.starts_with(name); });
    if (!said) remarks.push_back({std::string(name), "the changed job runs another than the plan"});
  }
}

void remark_ours(const Plan& plan, std::string_view tool, std::vector<Remark>& remarks) {
  if (plan.samples > 0) {
    remarks.push_back(
        {"global_batch_size",
         fmt::format("{}: micro-batches of {} and {} samples; {} has one size", plan.samples,
                     plan.micro_batch_size, plan.micro_batch_size - 1, tool)});
  }
  if (plan.lengths.known()) {
    remarks.push_back({"lengths", fmt::format("{}: how long they are is not in the files, {} takes "
                                              "its data's",
                                              to_text(plan.lengths), tool)});
  }
  const Recompute& recompute = plan.recompute;
  if (recompute.except_last && recompute.mode != RecomputeMode::none) {
    remarks.push_back(
        {"recompute_microbatches", fmt::format("except-last: {} re-materialises all", tool)});
  }
  if (recompute.mode == RecomputeMode::stage && recompute.placement == RecomputePlacement::early) {
    remarks.push_back({"recompute_placement",
                       fmt::format("early: {} re-materialises when the gradient has come", tool)});
  }
  if (plan.expert_load != 1) {
    remarks.push_back(
        {"expert_load", fmt::format("{}: how full {}'s fullest experts are is the data's and its "
                                    "router's to make",
                                    plan.expert_load, tool)});
  }
  if (!plan.placement.empty()) {
    remarks.push_back({"placement",
                       "on which nodes ranks stand follows from the order in which "
                       "hosts are given to the launcher"});
  }
  if (plan.slots != Plan{}.slots) {
    remarks.push_back(
        {"slots", fmt::format("{}: {} has receive buffers of its own", plan.slots, tool)});
  }
}

void remark_rank_order(const Plan& plan, std::string_view tool, std::vector<Remark>& remarks) {
  if (plan.rank_order == RankOrder::tp_cp_dp_pp) return;
  remarks.push_back({"rank_order", fmt::format("{}: {} numbers the replicas of a rank side by side",
                                               to_string(plan.rank_order), tool)});
}

void remark_chunks(const Plan& plan, std::string_view tool, std::vector<Remark>& remarks) {
  if (plan.recompute.at_a_time == 1) return;
  remarks.push_back({"recompute", fmt::format("{}: {} rebuilds one block at a time",
                                              recompute_word(plan.recompute), tool)});
}

void remark_sharing(const Plan& plan, std::string_view tool, std::vector<Remark>& remarks) {
  const auto users = [&](std::string name, std::string_view what) {
    remarks.push_back(
        {std::move(name),
         fmt::format("{}: not in the files, {} leaves it to the user's code", what, tool)});
  };
  if (plan.sequence_parallel) users("sequence_parallel", "true");
  if (plan.overlap_tensor_parallel) users("overlap_tensor_parallel", "true");
  if (plan.overlap_experts) users("overlap_experts", "true");
  if (plan.ep > 1) users("ep", std::to_string(plan.ep));
  if (plan.etp > 0) users("etp", std::to_string(plan.etp));
  if (plan.expert_dispatch != ExpertDispatch::by_stack)
    users("expert_dispatch", to_string(plan.expert_dispatch));
  if (plan.zero > 0) users("zero", std::to_string(plan.zero));
  if (plan.zero_shards > 0) users("zero_shards", std::to_string(plan.zero_shards));
  if (plan.zero_secondary > 0) users("zero_secondary", std::to_string(plan.zero_secondary));
  if (plan.overlap_grad_reduce) users("overlap_grad_reduce", "true");
  if (plan.overlap_param_gather) users("overlap_param_gather", "true");
  if (plan.recompute.mode == RecomputeMode::selective)
    users("recompute", recompute_word(plan.recompute));
}

std::string python_number(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace weir
