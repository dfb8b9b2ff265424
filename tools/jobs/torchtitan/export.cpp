// What a torchtitan job says, in the words that its TOML and its registry share.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/torchtitan/export.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/schedule/schedule_csv.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/torchtitan/flavor.hpp"
#include "tools/jobs/torchtitan/words.hpp"
#include "tools/jobs/trainers/ask.hpp"

namespace weir {
namespace {

struct Order {
  std::string_view schedule;  // PyTorch's class
  bool csv = false;
};

// PyTorch's own schedules by name, every other looped one as a file. A V needs one of the two
// classes that place so.
Order order_of(const ResolvedPlan& loaded, std::vector<Remark>& remarks) {
  const Plan& plan = loaded.plan;
  const std::string_view named = schedule_to_torch(plan.schedule);
  switch (placement_of(loaded.schedule.shape)) {
    case ChunkPlacement::looped: {
      const bool whole_rounds =
          plan.microbatches % plan.pp == 0 && plan.microbatches >= plan.stages();
      if (plan.schedule == "gpipe" ||
          (whole_rounds && (plan.schedule == "1f1b" || plan.schedule == "interleaved-1f1b"))) {
        return {named};
      }
      return {"PipelineScheduleMulti", true};
    }
    case ChunkPlacement::v_shaped:
      if (named.empty()) {
        remarks.push_back(
            {"schedule",
             fmt::format("{}: stages in a V are placed by name only there, ZBVZeroBubble runs",
                         plan.schedule)});
        return {"ZBVZeroBubble"};
      }
      remarks.push_back(
          {"schedule",
           fmt::format("{}: PyTorch's order of that name runs, which may differ from the plan's",
                       plan.schedule)});
      return {named};
    default:
      remarks.push_back(
          {"schedule",
           fmt::format("{}: copies of the weights or slices of sequences are not there, {} runs",
                       plan.schedule, plan.vpp > 1 ? "Interleaved1F1B" : "1F1B")});
      return {plan.vpp > 1 ? std::string_view("Interleaved1F1B") : std::string_view("1F1B")};
  }
}

// A layer's name there: any may stand on a stage of its own, the norm and the head too.
std::string module_of(int layer, int layers, std::string_view head) {
  if (layer == 0) return "tok_embeddings";
  if (layer == layers - 2) return "norm";
  return layer == layers - 1 ? std::string(head) : fmt::format("layers.{}", layer - 1);
}

std::string modules_of(const ResolvedPlan& loaded, std::string_view head) {
  std::string text = "[\n";
  const auto layers = static_cast<int>(loaded.model.layers.size());
  for (std::size_t s = 0; s < loaded.stages.size(); ++s) {
    const LayerRange& range = loaded.stages[s].layers;
    text += "  [";
    for (int l = range.first; l < range.last; ++l) {
      text += fmt::format("{}\"{}\"", l == range.first ? "" : ", ", module_of(l, layers, head));
    }
    text += s + 1 < loaded.stages.size() ? "],\n" : "]\n";
  }
  return text + "]";
}

// A router has a bias wherever all products have one, and there alone.
void refuse_shared_experts(const Decoder& d, const std::string& file) {
  if (d.block.shared_ffn > 0 || (d.block.router_bias && !d.block.mlp_bias))
    throw InputError(file, "layers", "shared experts or a router's bias cannot be exported");
  if (d.block.expert_groups > 0)
    throw InputError(file, "layers", "experts that are chosen by groups cannot be exported");
}

void set_model(TorchtitanJob& job, const ResolvedPlan& loaded, Trainer version,
               std::vector<Remark>& remarks) {
  std::string_view flavor = torchtitan_flavor(loaded.model);
  const Decoder d = *as_decoder(loaded.model);
  // Version 0.2 has none of a tied model.
  if (version == Trainer::torchtitan_0_2 && d.embedding.tied) flavor = "";
  job.flavor = flavor.empty() ? kOwnFlavor : flavor;
  const bool scaled_otherwise =
      !flavor.empty() && torchtitan_llama3(flavor)->block.angles != d.block.angles;
  if ((flavor.empty() || scaled_otherwise) && has_llamas_blocks(d, version)) {
    job.flavor = kOwnFlavor;
    job.own_sizes = d;
    return;
  }
  if (flavor.empty()) {
    remarks.push_back(
        {"model",
         fmt::format("no flavour of llama3 has its sizes: register one called weir with dim={}, "
                     "n_layers={}, "
                     "n_heads={}, n_kv_heads={}, a feed-forward width of {}, a vocabulary of {}, "
                     "rope_theta={} and norm_eps={}",
                     d.block.hidden, d.blocks, d.block.heads, d.block.kv_heads, d.block.ffn,
                     d.embedding.vocabulary, python_number(d.block.angles.theta),
                     python_number(d.block.norm_epsilon))});
    if (d.block.rotary && d.block.angles.scaling == RotaryScaling::other) {
      remarks.push_back({"model",
                         "rotary positions are scaled in a way of the model's own, as YaRN is: "
                         "its config says how, and torchtitan has llama3's alone"});
    } else if (d.block.rotary && d.block.angles.scaling != RotaryScaling::none) {
      remarks.push_back(
          {"model", fmt::format("rotary positions are scaled by {}: say so in the flavour's "
                                "rope_scaling_args",
                                python_number(d.block.angles.factor))});
    }
    if (d.block.experts > 1) {
      remarks.push_back(
          {"model", fmt::format("llama3 is dense and the model's {} experts, {} a token, are not "
                                "written: the file starts no job until it names one that has them",
                                d.block.experts, d.block.experts_per_token)});
    } else if (!is_llamas(d.block) || d.block.qk_norm || d.embedding.tied) {
      remarks.push_back(
          {"model",
           "blocks there are Llama's: rotary positions, RMS norms, one gated MLP, an untied head"});
    }
  }
  if (scaled_otherwise)
    remarks.push_back(
        {"model", fmt::format("rotary positions of {} are scaled as Llama 3.1's, with a "
                              "base of 500000: the model's are not",
                              flavor)});
}

// Degrees, and what replicas share: FSDP's stages as tools/jobs/torchtitan/import reads them.
void set_degrees(TorchtitanJob& job, const Plan& plan, Trainer version,
                 std::vector<Remark>& remarks) {
  const auto instead = [&remarks](std::string name, std::string what) {
    remarks.push_back({std::move(name), std::move(what)});
  };
  if (plan.tp > 1 && !plan.sequence_parallel) {
    instead("sequence_parallel",
            "torchtitan's tensor parallelism always divides by tokens what it leaves whole");
  }
  if (plan.replicas() > 1 && !plan.overlap_grad_reduce) {
    instead("overlap_grad_reduce", "torchtitan always reduces beside the backward");
  }
  if (plan.overlap_param_gather) {
    instead("overlap_param_gather",
            "torchtitan gathers each block's weights before its own forward, beside the block "
            "before");
  }
  if (plan.zero == 0 && plan.cp > 1) {
    instead("zero",
            "0: torchtitan always shards among context-parallel devices: with them the replicas");
  }
  const int reached = plan.zero == 3 ? 3 : plan.pp > 1 ? 1 : 2;
  if (plan.zero > 0 && plan.zero != reached) {
    instead("zero", fmt::format("{}: torchtitan reduces {}, as stage {}", plan.zero,
                                plan.pp > 1 ? "once a step" : "with each micro-batch", reached));
  }
  const bool sharded = plan.zero > 0 || plan.cp > 1;
  const auto add = [&job](const char* name, int degree) {
    job.parallelism.emplace_back(name, fmt::to_string(degree));
  };
  const int copies = sharded ? plan.share_groups() : plan.dp;
  const bool divides = plan.dp % copies == 0;
  if (!divides) {
    instead("zero_shards",
            fmt::format("{}: copies there are of whole context-parallel groups", plan.zero_shards));
  }
  add("data_parallel_replicate_degree", divides ? copies : 1);
  add("data_parallel_shard_degree", divides ? plan.dp / copies : plan.dp);
  if (sharded)
    job.parallelism.emplace_back("fsdp_reshard_after_forward",
                                 plan.zero == 3 ? "\"always\"" : "\"never\"");
  add("tensor_parallel_degree", plan.tp);
  // Main has it among what is compiled.
  if (plan.overlap_tensor_parallel && version == Trainer::torchtitan_0_2)
    job.parallelism.emplace_back("enable_async_tensor_parallel", "true");
  add("context_parallel_degree", plan.cp);
  add("pipeline_parallel_degree", plan.pp);
  if (plan.ep > 1) {
    add("expert_parallel_degree", plan.ep);
    if (plan.expert_dispatch == ExpertDispatch::once)
      job.parallelism.emplace_back("expert_parallel_comm_backend", "\"deepep\"");
    if (plan.tp > 1 && version == Trainer::torchtitan_0_2) {
      add("expert_tensor_parallel_degree", plan.expert_tp());
    } else if (plan.expert_tp() > 1) {
      remarks.push_back({"etp", "devices of tp divide no expert there: they share whole ones"});
    }
  } else if (plan.etp > 0) {
    remarks.push_back({"etp", fmt::format("{}: without expert parallelism all of tp divide experts "
                                          "there",
                                          plan.etp)});
  }
}

// k where those rebuilt are every k-th block of each rank, counted over its stages in order (as
// tools/jobs/torchtitan/import reads it); nullopt where they are others.
std::optional<int> every_kth(const ResolvedPlan& loaded, const std::vector<bool>& rebuilt,
                             const std::vector<int>& blocks) {
  const ScheduleShape& shape = loaded.schedule.shape;
  Indexed<Rank, std::vector<bool>> of_rank(shape.ranks);
  auto block = rebuilt.begin();
  for (std::int32_t s = 0; s < shape.stages; ++s) {
    auto& mine = of_rank[shape.rank_of(Stage{s})];
    mine.insert(mine.end(), block, block + blocks[static_cast<std::size_t>(s)]);
    block += blocks[static_cast<std::size_t>(s)];
  }
  const auto& first = of_rank[Rank{0}];
  const auto k = std::ranges::find(first, true) - first.begin() + 1;
  for (const auto& mine : of_rank) {
    for (std::size_t b = 0; b < mine.size(); ++b) {
      if (mine[b] != ((static_cast<std::ptrdiff_t>(b) + 1) % k == 0)) return std::nullopt;
    }
  }
  return static_cast<int>(k);
}

// torchtitan's decay begins behind the warm-up and ends with the training, whose steps are the
// training table's.
void set_rate(TorchtitanJob& job, const Optimizer& o) {
  const RateSchedule& rate = o.rate;
  job.rate.emplace_back("warmup_steps", fmt::to_string(rate.warmup_iters));
  if (rate.style == DecayStyle::constant) {
    job.rate.emplace_back("decay_ratio", "0.0");
  } else {
    job.rate.emplace_back("decay_type", fmt::format("\"{}\"", to_string(rate.style)));
    job.rate.emplace_back("min_lr_factor", python_number(rate.min_lr / o.learning_rate));
  }
}

void set_training(TorchtitanJob& job, const Plan& plan, std::vector<Remark>& remarks) {
  const bool half = plan.dtype == Dtype::bf16 || plan.dtype == Dtype::fp16;
  if (plan.dtype == Dtype::fp16) remarks.push_back({"dtype", "fp16: bfloat16 in the file"});
  if (plan.dtype == Dtype::tf32)
    remarks.push_back({"dtype", "tf32: PyTorch's own switch, float32 in the file"});
  if (plan.attention != AttentionKind::fused)
    remarks.push_back({"attention", "unfused: torchtitan's is fused"});
  // torchtitan always clips: a norm that none reaches where the plan does not.
  const double clip = plan.optimizer.clip_norm;
  const std::int64_t steps = plan.optimizer.rate.decay_iters;
  job.training = {{"mixed_precision_param", half ? "\"bfloat16\"" : "\"float32\""},
                  {"max_norm", python_number(clip > 0 ? clip : 1e9)}};
  if (steps > 0) job.training.emplace_back("steps", fmt::to_string(steps));
  if (plan.optimizer.kind == OptimizerKind::sgd || plan.optimizer.kind == OptimizerKind::rmsprop) {
    remarks.push_back({"optimizer", fmt::format("{}: torchtitan has none, AdamW in the file",
                                                to_string(plan.optimizer.kind))});
  }
}

// What the version's table says that it needs, all of the training's own words.
void set_needs(TorchtitanJob& job, const ResolvedPlan& loaded, Trainer version,
               std::vector<Remark>& remarks) {
  const TrainerFacts facts = facts_of(loaded);
  for (const TrainerRow* row : rows_that_hold(version, RowKind::needs, facts)) {
    job.training.emplace_back(row->argument, row->value(facts));
    if (row->argument == "dtype")
      remarks.push_back({"dtype", "weights are kept in 16 bits there, without a copy in fp32"});
  }
}

void set_pipeline(TorchtitanJob& job, const ResolvedPlan& loaded, std::string_view head,
                  std::vector<Remark>& remarks) {
  const Plan& plan = loaded.plan;
  if (plan.pp == 1) {
    if (plan.vpp > 1) remarks.push_back({"vpp", "one rank has no pipeline there"});
    return;
  }
  const Order order = order_of(loaded, remarks);
  job.parallelism.emplace_back("pipeline_parallel_schedule", fmt::format("\"{}\"", order.schedule));
  if (order.csv) {
    job.parallelism.emplace_back("pipeline_parallel_schedule_csv", "\"schedule.csv\"");
    job.schedule = to_csv(loaded.schedule);
  }
  job.parallelism.emplace_back("module_fqns_per_model_part", modules_of(loaded, head));
}

void set_checkpointing(TorchtitanJob& job, const ResolvedPlan& loaded,
                       const std::vector<int>& blocks, std::vector<Remark>& remarks) {
  const Recompute& recompute = loaded.plan.recompute;
  job.checkpointing = "none";
  if (recompute.mode == RecomputeMode::none) return;
  if (recompute.mode == RecomputeMode::selective) {
    job.checkpointing = "selective";
    remarks.push_back({"recompute",
                       "selective: by operation there, as torchtitan's stacks take it; others "
                       "rebuild the attention core"});
    return;
  }
  job.checkpointing = "full";
  if (recompute.mode == RecomputeMode::stage) {
    remarks.push_back(
        {"recompute", "stage: torchtitan rebuilds a block at a time, full in the file"});
    return;
  }
  remark_chunks(loaded.plan, "torchtitan", remarks);
  const std::vector<bool> rebuilt = blocks_rebuilt(loaded, "torchtitan", remarks);
  if (std::ranges::find(rebuilt, true) == rebuilt.end()) job.checkpointing = "none";
  if (std::ranges::find(rebuilt, true) == rebuilt.end() ||
      std::ranges::find(rebuilt, false) == rebuilt.end())
    return;
  job.rebuilt_every = every_kth(loaded, rebuilt, blocks);
  if (job.rebuilt_every) return;
  remarks.push_back(
      {"recompute", fmt::format("{}: torchtitan rebuilds every block, or every so many of a rank: "
                                "full in the file",
                                recompute_word(recompute))});
}

}  // namespace

TorchtitanJob torchtitan_job(const ResolvedPlan& loaded, Trainer version, const Allowed& allowed,
                             std::vector<Remark>& remarks) {
  TorchtitanJob job;
  require_stages(loaded, Stack{.name = "torchtitan"});
  require_trainer_runs(version, loaded, allowed);
  refuse_shared_experts(decoder_for_export(loaded), loaded.plan.model_path);
  // Of a model that it can export this is there, and no stage is empty.
  const std::vector<int> blocks = blocks_of_boundaries(loaded.plan, loaded.model).value();
  set_model(job, loaded, version, remarks);
  set_rate(job, loaded.plan.optimizer);
  set_training(job, loaded.plan, remarks);
  set_needs(job, loaded, version, remarks);
  set_degrees(job, loaded.plan, version, remarks);
  set_pipeline(job, loaded, version == Trainer::torchtitan ? "lm_head" : "output", remarks);
  set_checkpointing(job, loaded, blocks, remarks);
  remark_rank_order(loaded.plan, "torchtitan", remarks);
  remark_ours(loaded.plan, "torchtitan", remarks);
  remarks.push_back(
      {"compile", loaded.plan.overlap_tensor_parallel
                      ? "on: what tensor parallelism exchanges overlaps compiled products alone"
                      : "a plan does not say whether: it is off there unless one says compile, and "
                        "the stack torchtitan-eager"});
  return job;
}

}  // namespace weir
