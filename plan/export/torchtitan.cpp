// A torchtitan job file; it reads back by `weir plan --from torchtitan`.
// SPDX-License-Identifier: Apache-2.0
#include "plan/import/torchtitan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/export/export.hpp"
#include "plan/schedule/schedule_csv.hpp"

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

std::string modules_of(const std::vector<int>& blocks) {
  std::string text = "[\n";
  int layer = 0;
  for (std::size_t s = 0; s < blocks.size(); ++s) {
    text += "  [";
    std::string separator;
    const auto add = [&](const std::string& name) {
      text += fmt::format("{}\"{}\"", separator, name);
      separator = ", ";
    };
    if (s == 0) add("tok_embeddings");
    for (int i = 0; i < blocks[s]; ++i) add(fmt::format("layers.{}", layer++));
    if (s + 1 == blocks.size()) {
      add("norm");
      add("output");
    }
    text += s + 1 < blocks.size() ? "],\n" : "]\n";
  }
  return text + "]";
}

std::string model_table(const ResolvedPlan& loaded, std::vector<Remark>& remarks) {
  const std::string_view flavor = torchtitan_flavor(loaded.model);
  if (flavor.empty()) {
    const Decoder d = *as_decoder(loaded.model);
    remarks.push_back(
        {"model",
         fmt::format("no flavour of llama3 has its sizes: register one called weir with dim={}, "
                     "n_layers={}, "
                     "n_heads={}, n_kv_heads={}, a feed-forward width of {}, a vocabulary of {}, "
                     "rope_theta={} and norm_eps={}",
                     d.block.hidden, d.blocks, d.block.heads, d.block.kv_heads, d.block.ffn,
                     d.embedding.vocabulary, python_number(d.block.angles.theta),
                     python_number(d.block.norm_epsilon))});
    if (d.block.rotary && d.block.angles.scaling != RotaryScaling::none) {
      remarks.push_back(
          {"model", fmt::format("rotary positions are scaled by {}: say so in the flavour's "
                                "rope_scaling_args",
                                python_number(d.block.angles.factor))});
    }
    if (!d.block.gated || !d.block.rotary || d.block.norm != NormKind::rms_norm ||
        d.block.qk_norm || d.embedding.tied) {
      remarks.push_back(
          {"model",
           "blocks there are Llama's: rotary positions, RMS norms, a gated MLP, an untied head"});
    }
  }
  return fmt::format("[model]\nname = \"llama3\"\nflavor = \"{}\"\n\n",
                     flavor.empty() ? "weir" : flavor);
}

std::string optimizer_table(const Plan& plan, std::vector<Remark>& remarks) {
  const Optimizer& o = plan.optimizer;
  if (o.kind == OptimizerKind::sgd || o.kind == OptimizerKind::rmsprop) {
    remarks.push_back({"optimizer", fmt::format("{}: torchtitan has none, AdamW in the file",
                                                to_string(o.kind))});
  }
  return fmt::format(
      "[optimizer]\nname = \"{}\"\nlr = {}\nbeta1 = {}\nbeta2 = {}\neps = {}\nweight_decay = "
      "{}\n\n",
      o.kind == OptimizerKind::adam ? "Adam" : "AdamW", python_number(o.learning_rate),
      python_number(o.beta1), python_number(o.beta2), python_number(o.epsilon),
      python_number(o.weight_decay));
}

// torchtitan's decay begins behind the warm-up and ends with the training, whose steps are the
// training table's.
std::string rate_table(const Optimizer& o) {
  const RateSchedule& rate = o.rate;
  std::string text = fmt::format("[lr_scheduler]\nwarmup_steps = {}\n", rate.warmup_iters);
  if (rate.style == DecayStyle::constant) {
    text += "decay_ratio = 0.0\n";
  } else {
    text += fmt::format("decay_type = \"{}\"\nmin_lr_factor = {}\n", to_string(rate.style),
                        python_number(rate.min_lr / o.learning_rate));
  }
  return text + "\n";
}

std::string training_table(const Plan& plan, std::vector<Remark>& remarks) {
  const bool half = plan.dtype == Dtype::bf16 || plan.dtype == Dtype::fp16;
  if (plan.dtype == Dtype::fp16) remarks.push_back({"dtype", "fp16: bfloat16 in the file"});
  if (plan.dtype == Dtype::tf32)
    remarks.push_back({"dtype", "tf32: PyTorch's own switch, float32 in the file"});
  // torchtitan always clips: a norm that none reaches where the plan does not.
  const double clip = plan.optimizer.clip_norm;
  const std::int64_t steps = plan.optimizer.rate.decay_iters;
  const int local = plan.micro_batch_size * (plan.pp > 1 ? plan.microbatches : 1);
  return fmt::format(
      "[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = "
      "{}\nmixed_precision_param = \"{}\"\nseed = "
      "{}\nmax_norm = {}\n{}\n",
      local, plan.global_batch_size(), plan.seq_length, half ? "bfloat16" : "float32", plan.seed,
      python_number(clip > 0 ? clip : 1e9), steps > 0 ? fmt::format("steps = {}\n", steps) : "");
}

// Degrees, and what replicas share: FSDP's stages as plan/import/torchtitan reads them.
std::string parallelism_table(const Plan& plan, std::vector<Remark>& remarks) {
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
  if (plan.zero == 0 && plan.cp > 1)
    instead("zero", "0: torchtitan always shards among context-parallel devices");
  const int reached = plan.zero == 3 ? 3 : plan.pp > 1 ? 1 : 2;
  if (plan.zero > 0 && plan.zero != reached) {
    instead("zero", fmt::format("{}: torchtitan reduces {}, as stage {}", plan.zero,
                                plan.pp > 1 ? "once a step" : "with each micro-batch", reached));
  }
  const bool sharded = plan.zero > 0;
  std::string text = fmt::format(
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "tensor_parallel_degree = {}\ncontext_parallel_degree = {}\npipeline_parallel_degree = {}\n",
      sharded ? 1 : plan.dp, sharded ? plan.dp : 1, plan.tp, plan.cp, plan.pp);
  if (sharded)
    text +=
        fmt::format("fsdp_reshard_after_forward = \"{}\"\n", plan.zero == 3 ? "always" : "never");
  return text;
}

// k where those rebuilt are every k-th block of each rank, counted over its stages in order (as
// plan/import/torchtitan reads it); nullopt where they are others.
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

std::string checkpoint_table(const ResolvedPlan& loaded, const std::vector<int>& blocks,
                             std::vector<Remark>& remarks) {
  const Recompute& recompute = loaded.plan.recompute;
  const auto table = [](std::string_view mode) {
    return fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n", mode);
  };
  switch (recompute.mode) {
    case RecomputeMode::none:
      return table("none");
    case RecomputeMode::selective:
      remarks.push_back(
          {"recompute",
           "selective: rebuilding the attention core alone has no word there, none in the file"});
      return table("none");
    case RecomputeMode::stage:
      remarks.push_back(
          {"recompute", "stage: torchtitan rebuilds a block at a time, full in the file"});
      return table("full");
    case RecomputeMode::full:
      break;
  }
  const std::vector<bool> rebuilt = blocks_rebuilt(loaded, "torchtitan", remarks);
  if (std::ranges::find(rebuilt, true) == rebuilt.end()) return table("none");
  if (std::ranges::find(rebuilt, false) == rebuilt.end()) return table("full");
  if (const auto k = every_kth(loaded, rebuilt, blocks))
    return table("selective") + fmt::format("selective_ac_option = \"{}\"\n", *k);
  remarks.push_back(
      {"recompute", fmt::format("{}: torchtitan rebuilds every block, or every so many of a rank: "
                                "full in the file",
                                recompute_word(recompute))});
  return table("full");
}

}  // namespace

ExportedJob export_torchtitan(const ResolvedPlan& loaded, const ExportOptions& options) {
  const Plan& plan = loaded.plan;
  ExportedJob job;
  require_stages(loaded, Stack{.name = "torchtitan"});
  const std::vector<int> blocks = blocks_for_export(loaded, job.not_carried);
  std::string text = "# Written by weir export.\n\n" + model_table(loaded, job.not_carried) +
                     optimizer_table(plan, job.not_carried) + rate_table(plan.optimizer) +
                     training_table(plan, job.not_carried);
  text += parallelism_table(plan, job.not_carried);
  if (plan.pp > 1) {
    const Order order = order_of(loaded, job.not_carried);
    text +=
        fmt::format("pipeline_parallel_microbatch_size = {}\npipeline_parallel_schedule = \"{}\"\n",
                    plan.micro_batch_size, order.schedule);
    if (order.csv) {
      text += "pipeline_parallel_schedule_csv = \"schedule.csv\"\n";
      job.files.push_back({"schedule.csv", to_csv(loaded.schedule)});
    }
    text += fmt::format("module_fqns_per_model_part = {}\n", modules_of(blocks));
  } else if (plan.vpp > 1) {
    job.not_carried.push_back({"vpp", "one rank has no pipeline there"});
  }
  text += checkpoint_table(loaded, blocks, job.not_carried);
  remark_ours(plan, "torchtitan", job.not_carried);
  job.not_carried.push_back(
      {"data", "a plan has none: give --training.dataset and --training.steps"});
  job.files.insert(job.files.begin(), {"job.toml", text});
  job.launch =
      torchrun(nodes_of(plan, options)) + " -m torchtitan.train --job.config_file job.toml";
  return job;
}

}  // namespace weir
