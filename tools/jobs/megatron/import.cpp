// How a Megatron job runs its model: from its arguments to a plan.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "plan/model/limits.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/deepspeed/import.hpp"
#include "tools/jobs/job/unmodelled.hpp"
#include "tools/jobs/megatron/layout.hpp"
#include "tools/jobs/megatron/recipe.hpp"

namespace weir {
namespace {

int degree(Arguments& a, std::string_view name) {
  return static_cast<int>(a.integer_or(name, 1, 1, kMostRanks));
}

// Blocks of each stage when stages of the first and last rank may hold other numbers than those
// between.
class StageBlocks {
 public:
  StageBlocks(Arguments& a, const Plan& plan, std::int64_t blocks)
      : a_(a), plan_(plan), blocks_(blocks) {}

  std::vector<int> blocks_of_stages() {
    const auto first = a_.maybe_integer("decoder-first-pipeline-num-layers", 0, blocks_);
    const auto last = a_.maybe_integer("decoder-last-pipeline-num-layers", 0, blocks_);
    const std::string method = a_.text_or("pp-partition-method", "");
    // A stage may count its embedding or its loss as one block.
    const bool by_type = method.starts_with("type:") && method.find("embed") != std::string::npos;
    const bool embedding = a_.flag("account-for-embedding-in-pipeline-split") || by_type;
    const bool loss = a_.flag("account-for-loss-in-pipeline-split") || by_type;
    if ((first || last) && (embedding || loss)) {
      a_.fail("decoder-first-pipeline-num-layers",
              "excludes account-for-embedding and account-for-loss");
    }
    if (first || last) return uneven(first, last);
    // Embedding and loss take the place of a block each, so their stages have one fewer.
    const std::int64_t counted = blocks_ + (embedding ? 1 : 0) + (loss ? 1 : 0);
    std::vector<int> blocks(static_cast<std::size_t>(plan_.stages()),
                            divided(counted, plan_.stages(), "num-layers"));
    if (embedding) --blocks.front();
    if (loss) --blocks.back();
    return blocks;
  }

 private:
  std::vector<int> uneven(std::optional<std::int64_t> first, std::optional<std::int64_t> last) {
    const std::int64_t others = plan_.pp - (first ? 1 : 0) - (last ? 1 : 0);
    const std::int64_t rest = blocks_ - first.value_or(0) - last.value_or(0);
    if (others < 0 || rest < 0 || (others == 0 && rest != 0)) {
      a_.fail("num-layers", "does not agree with the layers of the first and last rank");
    }
    const int usual = others > 0 ? divided(rest, others * plan_.vpp, "num-layers") : 0;
    std::vector<int> blocks;
    for (int s = 0; s < plan_.stages(); ++s) {
      const int rank = s % plan_.pp;
      const bool at_first = first && rank == 0, at_last = last && rank == plan_.pp - 1;
      blocks.push_back(at_first  ? divided(*first, plan_.vpp, "decoder-first-pipeline-num-layers")
                       : at_last ? divided(*last, plan_.vpp, "decoder-last-pipeline-num-layers")
                                 : usual);
    }
    return blocks;
  }
  int divided(std::int64_t blocks, std::int64_t stages, std::string_view name) {
    if (blocks % stages != 0) {
      a_.fail(name, fmt::format("{} blocks do not divide into {} equal stages", blocks, stages));
    }
    return static_cast<int>(blocks / stages);
  }

  Arguments& a_;
  const Plan& plan_;
  std::int64_t blocks_;
};

void set_stages(Arguments& a, Plan& plan, std::int64_t blocks, const std::string& file) {
  const auto per_chunk = a.maybe_integer("num-layers-per-virtual-pipeline-stage", 1, blocks);
  const auto chunks = a.maybe_integer("num-virtual-stages-per-pipeline-rank", 1, 1024);
  const auto layout = a.text("pipeline-model-parallel-layout");
  const std::string layout_key = "--pipeline-model-parallel-layout";
  if (per_chunk.has_value() + chunks.has_value() + layout.has_value() > 1) {
    a.fail("num-layers-per-virtual-pipeline-stage",
           "num-virtual-stages-per-pipeline-rank and pipeline-model-parallel-layout exclude each "
           "other");
  }
  std::vector<int> of_stages;
  if (layout) {
    const MegatronLayout parsed = parse_layout(*layout, file, layout_key);
    of_stages = parsed.blocks;
    const auto stages = static_cast<int>(of_stages.size());
    if (stages % plan.pp != 0) {
      throw InputError(file, layout_key,
                       fmt::format("{} stages are no multiple of {} ranks", stages, plan.pp));
    }
    plan.vpp = stages / plan.pp;
    std::int64_t sum = 0;
    for (const int n : of_stages) sum += n;
    if (sum != blocks)
      throw InputError(file, layout_key,
                       fmt::format("holds {} blocks of num-layers {}", sum, blocks));
    if (parsed.predictions > 0)
      throw InputError(file, layout_key, "m: multi-token prediction is not modelled");
  } else {
    if (per_chunk && blocks % (*per_chunk * plan.pp) != 0) {
      a.fail("num-layers-per-virtual-pipeline-stage",
             fmt::format("times {} ranks does not divide num-layers", plan.pp));
    }
    const std::int64_t usual =
        a.flag("zero-bubble-v-schedule") ? 2 : 1;  // a V has two chunks a rank, unasked
    plan.vpp =
        static_cast<int>(chunks.value_or(per_chunk ? blocks / (*per_chunk * plan.pp) : usual));
    of_stages = StageBlocks(a, plan, blocks).blocks_of_stages();
  }
  plan.boundaries = boundaries_of_blocks(of_stages);
}

void set_schedule(Arguments& a, Plan& plan, std::vector<Remark>& remarks) {
  plan.schedule = plan.vpp > 1 ? "interleaved-1f1b" : "1f1b";
  if (a.flag("zero-bubble-v-schedule")) {
    const std::string memory = a.text_or("zero-bubble-v-schedule-mem-setup", "zb");
    if (memory != "min" && memory != "half" && memory != "zb") {
      a.fail("zero-bubble-v-schedule-mem-setup", "expected min, half or zb");
    }
    plan.schedule = memory == "min" ? "v-min" : memory == "half" ? "v-half" : "zb-v";
    if (plan.vpp != 2) a.fail("zero-bubble-v-schedule", "needs two chunks a rank");
    static_cast<void>(a.flag("enable-zero-bubble"));
  } else if (a.flag("enable-zero-bubble")) {
    // ZB-H2 is ZB-H1 with room for more forwards in flight: the fork tells them apart by that
    // alone.
    const auto pending = a.integer_or("zero-bubble-max-pending-backward", plan.pp, 1, kMostRanks);
    plan.schedule = pending > plan.pp ? "zb-h2" : "zb-h1";
    if (plan.vpp > 1) a.fail("enable-zero-bubble", "with several chunks a rank is not modelled");
  }
  if (a.flag("enable-zbh1-pipeline")) {  // Megatron-DeepSpeed's
    if (plan.vpp > 1) a.fail("enable-zbh1-pipeline", "with several chunks a rank is not modelled");
    plan.schedule = "zb-h1";
    if (a.flag("enable-zbh1-exact-semantics")) {
      remarks.push_back(
          {"enable-zbh1-exact-semantics", "how its weight gradients wait is not modelled apart"});
    }
  }
  const auto group =
      a.maybe_integer("microbatch-group-size-per-virtual-pipeline-stage", 1, kMostRanks);
  if (group && *group != plan.pp) {
    remarks.push_back({"microbatch-group-size-per-virtual-pipeline-stage",
                       fmt::format("{}: groups of {} (K) in the plan", *group, plan.pp)});
  }
}

// Megatron's flash (the flash-attn package) and fused (cuDNN) both keep the statistics alone.
void set_attention(Arguments& a, Plan& plan, std::vector<Remark>& remarks) {
  const std::string backend =
      a.text_or("attention-backend", a.flag("use-flash-attn") ? "flash" : "unfused");
  if (backend == "auto") {
    remarks.push_back(
        {"attention-backend", "auto: fused where Megatron finds it can; the plan says unfused"});
    return;
  }
  if (backend == "flash" || backend == "fused") {
    plan.attention = AttentionKind::fused;
  } else if (backend != "unfused" && backend != "local") {
    a.fail("attention-backend", "expected flash, fused, unfused, local or auto");
  }
}

// Method block: the first `layers` blocks of each stage (Megatron-Core 0.12,
// transformer/transformer_block.py, _checkpointed_forward).
Recompute first_blocks(const std::vector<int>& of_stages, std::int64_t layers) {
  std::vector<bool> rebuilt;
  for (const int blocks : of_stages) {
    for (int b = 0; b < blocks; ++b) rebuilt.push_back(b < layers);
  }
  return rebuilt_blocks(rebuilt);
}

void set_recompute(Arguments& a, Plan& plan, const std::vector<int>& of_stages,
                   std::vector<Remark>& remarks) {
  const auto granularity = a.text("recompute-granularity");
  const std::string method =
      a.text_or("recompute-method", a.text_or("activations-checkpoint-method", ""));
  const auto layers = a.integer_or(
      "recompute-num-layers", a.integer_or("checkpoint-num-layers", 1, 0, 1 << 20), 0, 1 << 20);
  const bool old = a.flag("checkpoint-activations");  // Megatron of 2020, and Megatron-DeepSpeed
  static_cast<void>(a.flag("deepspeed-activation-checkpointing"));
  static_cast<void>(a.flag("recompute-modules"));
  if (granularity && *granularity != "full" && *granularity != "selective") {
    a.fail("recompute-granularity", "expected full or selective");
  }
  const bool selective =
      a.flag("recompute-activations") || (granularity && *granularity == "selective");
  if (selective) {
    plan.recompute.mode = RecomputeMode::selective;
    const std::string modules = a.values("recompute-modules");
    if (!modules.empty() && modules != "core_attn") {
      remarks.push_back({"recompute-modules",
                         modules + ": the plan rebuilds the attention core, core_attn, alone"});
    }
    return;
  }
  if (!old && !granularity && method.empty()) return;
  if (method == "block") {
    plan.recompute = first_blocks(of_stages, layers);
    return;
  }
  plan.recompute = {.mode = RecomputeMode::full,
                    .at_a_time = std::max(1, static_cast<int>(layers))};
}

// ZeRO's stage: Megatron-DeepSpeed's own, the distributed optimizer, Megatron's FSDP by its
// strategy, or PyTorch's.
int zero_stage(Arguments& a) {
  constexpr std::array<std::string_view, 4> kStrategies{"no_shard", "optim", "optim_grads",
                                                        "optim_grads_params"};
  int stage = static_cast<int>(a.integer_or("zero-stage", 0, 0, 3));
  if (a.flag("use-distributed-optimizer")) stage = std::max(stage, 1);
  const std::string strategy =
      a.text_or("data-parallel-sharding-strategy", std::string(kStrategies[0]));
  const bool keeps_weights = a.flag("torch-fsdp2-no-reshard-after-forward");
  const bool custom = a.flag("use-custom-fsdp");  // an earlier name
  if (a.flag("use-megatron-fsdp") || custom) {
    const auto found = std::ranges::find(kStrategies, strategy);
    if (found == kStrategies.end()) {
      a.fail("data-parallel-sharding-strategy",
             "expected no_shard, optim, optim_grads or optim_grads_params");
    }
    stage = static_cast<int>(found - kStrategies.begin());
  }
  if (a.flag("use-torch-fsdp2")) stage = keeps_weights ? 2 : 3;
  return stage;
}

// What the devices of a stage and its replicas share. Megatron itself switches sequence parallelism
// off without tensor parallelism; one replica has nobody to share with or to reduce for.
void set_sharing(Arguments& a, Plan& plan, std::vector<Remark>& remarks) {
  const bool sequence = a.flag("sequence-parallel"), overlap = a.flag("overlap-grad-reduce");
  const bool sums_in_fp32 =
      a.flag("accumulate-allreduce-grads-in-fp32");  // with bf16 it always does
  const int zero = zero_stage(a);
  plan.sequence_parallel = sequence && plan.tp > 1;
  plan.zero = plan.replicas() > 1 ? zero : 0;
  plan.overlap_grad_reduce = overlap && plan.replicas() > 1;
  const std::string dispatcher = a.text_or("moe-token-dispatcher-type", "alltoall");
  if (dispatcher != "alltoall") {
    remarks.push_back({"moe-token-dispatcher-type",
                       dispatcher.substr(0, 40) + ": tokens are exchanged all to all in the plan"});
  }
  const bool ranks_first = a.flag("use-tp-pp-dp-mapping");
  if (ranks_first && plan.dp > 1) plan.rank_order = RankOrder::tp_cp_pp_dp;
  if (plan.dtype == Dtype::fp16 && !sums_in_fp32) {
    remarks.push_back({"accumulate-allreduce-grads-in-fp32",
                       "not given: gradients are summed in fp16, here in fp32"});
  }
}

// --lr-warmup-iters and its like: iterations, a share of the decay's, or samples.
std::int64_t iterations(Arguments& a, const std::string& of, std::int64_t batch) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (const auto count = a.maybe_integer(of + "-iters", 0, kMost)) return *count;
  return a.integer_or(of + "-samples", 0, 0, kMost) / batch;
}

// The learning rate's course, where it says one: a decay ends with the training where nothing else
// is said. Read after the batch.
void set_rate(Arguments& a, Plan& plan, std::vector<Remark>& remarks) {
  RateSchedule& rate = plan.optimizer.rate;
  const std::int64_t batch = plan.global_batch_size();
  const std::int64_t trained = iterations(a, "train", batch);
  const std::int64_t decay = iterations(a, "lr-decay", batch);
  const double share = a.number_or("lr-warmup-fraction", 0, 0, 1);
  const double least = a.number_or("min-lr", 0, 0, 1e6);
  const std::string style = a.text_or("lr-decay-style", "linear");
  rate.decay_iters = decay > 0 ? decay : trained;
  rate.warmup_iters = iterations(a, "lr-warmup", batch);
  if (share > 0) rate.warmup_iters = std::llround(share * static_cast<double>(rate.decay_iters));
  if (a.number_or("lr-warmup-init", 0, 0, 1e6) > 0)
    remarks.push_back({"lr-warmup-init", "the plan's warm-up begins at 0"});
  const auto known = parse_decay_style(style);
  const bool decays = known && *known != DecayStyle::constant;
  if (!known) {
    remarks.push_back({"lr-decay-style", style.substr(0, 40) + ": constant in the plan"});
  } else if (decays && rate.decay_iters > rate.warmup_iters &&
             least <= plan.optimizer.learning_rate) {
    rate.style = *known;
    rate.min_lr = least;
    return;
  } else if (decays && a.flag("lr-decay-style")) {
    remarks.push_back({"lr-decay-style",
                       style + ": without a number of iterations above the warm-up's and a minimum "
                               "below the rate: constant in the plan"});
  }
  rate.decay_iters = 0;
}

void set_optimizer(Arguments& a, Plan& plan) {
  Optimizer& o = plan.optimizer;
  const std::string kind = a.text_or("optimizer", "adam");
  if (kind != "adam" && kind != "adamw" && kind != "sgd") {
    a.fail("optimizer", fmt::format("{}: expected adam or sgd", kind.substr(0, 40)));
  }
  o.learning_rate = a.number_or("lr", o.learning_rate, 0, 1e6);
  o.weight_decay = a.number_or("weight-decay", 0.01, 0, 1e3);
  o.clip_norm = a.number_or("clip-grad", 1, 0, 1e9);
  if (kind == "sgd") {
    o.kind = OptimizerKind::sgd;
    o.momentum = a.number_or("sgd-momentum", 0.9, 0, 1);
    for (const char* name : {"adam-beta1", "adam-beta2", "adam-eps"})
      static_cast<void>(a.flag(name));
    return;
  }
  static_cast<void>(a.flag("sgd-momentum"));
  o.beta1 = a.number_or("adam-beta1", 0.9, 0, 1);
  o.beta2 = a.number_or("adam-beta2", 0.999, 0, 1);
  o.epsilon = a.number_or("adam-eps", 1e-8, 0, 1);
}

void set_batch(Arguments& a, Plan& plan, const std::string& file, std::vector<Remark>& remarks) {
  plan.micro_batch_size = static_cast<int>(a.integer("micro-batch-size", 1, 1 << 20));
  const auto global = a.maybe_integer("global-batch-size", 1, 1 << 30);
  const std::int64_t per_step = std::int64_t{plan.micro_batch_size} * plan.dp;
  if (!global) {
    remarks.push_back(
        {"global-batch-size", "not given: one micro-batch a step, as Megatron takes it"});
    return;
  }
  if (*global % per_step != 0 || *global / per_step > (1 << 20)) {
    throw InputError(file, "--global-batch-size",
                     fmt::format("{} is no multiple of micro-batch-size {} times {} replicas",
                                 *global, plan.micro_batch_size, plan.dp));
  }
  plan.microbatches = static_cast<int>(*global / per_step);
}

// Experts that are padded to a capacity are all as full as that; without padding, and where tokens
// are dropped, as full as they are on average.
void set_expert_parallelism(Arguments& a, Plan& plan, const Model& model, const std::string& file) {
  const bool deepspeed = a.flag("deepspeed");  // whose experts are always padded
  const char* const name = deepspeed ? "moe-expert-parallel-size" : "expert-model-parallel-size";
  plan.ep = degree(a, name);
  const auto apart = a.maybe_integer("expert-tensor-parallel-size", 1, kMostRanks);
  const double capacity = a.number_or("moe-expert-capacity-factor", 1, 0, kMostExpertLoad);
  if (a.flag("moe-pad-expert-input-to-capacity")) plan.expert_load = std::max(1.0, capacity);
  const bool experts = has_experts(model);
  if (deepspeed && experts) {
    const double load = a.number_or("moe-train-capacity-factor", 1, 0, kMostExpertLoad);
    plan.expert_load = std::max(1.0, load);
  } else if (deepspeed) {
    plan.ep = 1;  // Megatron-DeepSpeed's scripts say it of dense models, too
  }
  // Of dense models it says nothing.
  if (experts && apart && *apart != plan.tp) plan.etp = static_cast<int>(*apart);
  if (plan.ep == 1 && plan.expert_load == 1 && plan.etp == 0) return;
  const auto misfit = cannot_divide(model, plan);
  if (!misfit) return;
  if (misfit->key == "etp") a.fail("expert-tensor-parallel-size", misfit->reason);
  if (const auto devices = cannot_share_experts(plan); devices && experts)
    throw DeviceCountError(file, fmt::format("--{}", name), devices->reason);
  a.fail(name, misfit->reason);
}

// What would make the forecast one of another job. Numbers of 0 and "no_shard" switch it off.
void refuse_unmodelled(Arguments& a) {
  if (a.integer_or("mtp-num-layers", 0, 0, kMostLayers) > 0)
    a.fail("mtp-num-layers", kPredictionNotModelled);
  for (const char* name : {"optimizer-cpu-offload", "cpu-offloading", "cpu-offload",
                           "offload-optimizer-states", "fine-grained-activation-offloading"}) {
    if (a.flag(name)) a.fail(name, kOffloadNotModelled);
  }
  if (a.integer_or("cpu-offloading-num-layers", 0, 0, kMostLayers) > 0)
    a.fail("cpu-offloading-num-layers", kOffloadNotModelled);
  if (a.integer_or("ds-sequence-parallel-size", 1, 1, kMostRanks) > 1)
    a.fail("ds-sequence-parallel-size", "DeepSpeed's sequence parallelism is not modelled");
  if (a.integer_or("num-distributed-optimizer-instances", 1, 1, kMostRanks) > 1)
    a.fail("num-distributed-optimizer-instances", kHybridNotModelled);
  if (a.text_or("outer-dp-sharding-strategy", "no_shard") != "no_shard")
    a.fail("outer-dp-sharding-strategy", kHybridNotModelled);
}

}  // namespace

Job read_megatron_job(const std::string& text, const std::string& file, const JobOptions& options) {
  Arguments a(megatron_recipe_arguments(text).value_or(text), file, options.environment,
              options.files);
  if (a.empty()) {
    throw InputError(file, "",
                     "holds no arguments, expected --num-layers and its like" +
                         (a.remarks().empty() ? "" : "; " + a.remarks().front().text));
  }
  refuse_other_models(a, file);
  refuse_unmodelled(a);
  Job job;
  Plan& plan = job.plan;
  job.model = megatron_model(a, options, job.remarks);
  const auto blocks = static_cast<std::int64_t>(job.model.layers.size()) - 3;
  plan.pp = degree(a, "pipeline-model-parallel-size");
  plan.tp = degree(a, "tensor-model-parallel-size");
  plan.cp = degree(a, "context-parallel-size");
  plan.seq_length = job.model.seq_length;
  const bool bf16 = a.flag("bf16"), fp16 = a.flag("fp16");
  if (bf16 && fp16) a.fail("bf16", "contradicts --fp16");
  plan.dtype = bf16 ? Dtype::bf16 : fp16 ? Dtype::fp16 : Dtype::fp32;
  plan.dp = replicas_of(options, megatron_devices(a), plan, file, job.remarks);
  set_sharing(a, plan, job.remarks);
  set_expert_parallelism(a, plan, job.model, file);
  set_batch(a, plan, file, job.remarks);
  set_stages(a, plan, blocks, file);
  set_schedule(a, plan, job.remarks);
  set_attention(a, plan, job.remarks);
  const std::vector<int> of_stages = blocks_of_boundaries(plan, job.model).value();
  set_recompute(a, plan, of_stages, job.remarks);
  set_optimizer(a, plan);
  set_rate(a, plan, job.remarks);
  plan.seed = static_cast<std::uint64_t>(a.integer_or("seed", 1234, 0, std::int64_t{1} << 53));
  const auto config = a.flag("deepspeed") ? a.text("deepspeed-config") : std::nullopt;
  const auto beside = config ? a.file_text(*config) : std::nullopt;
  if (config && !beside) {
    job.remarks.push_back(
        {"deepspeed-config",
         fmt::format("what it says of offload and precision is not read{}",
                     a.flag("zero-stage") ? "" : ", nor its ZeRO stage: 0 in the plan")});
  }
  account_for(a, job);  // last: by now every reader has marked what it understood
  for (const std::string& name : a.names()) {
    if (!a.of_launcher(name)) job.lines.push_back(a.line(name));
  }
  if (beside)
    read_deepspeed_beside(*beside, fmt::format("{}: {}", file, *config), a.flag("zero-stage"), job);
  return job;
}

}  // namespace weir
