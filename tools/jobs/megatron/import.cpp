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
#include "tools/jobs/megatron/dump.hpp"
#include "tools/jobs/megatron/kept_lines.hpp"
#include "tools/jobs/megatron/post_trainers.hpp"
#include "tools/jobs/megatron/recipe.hpp"
#include "tools/jobs/megatron/slime.hpp"
#include "tools/jobs/megatron/yaml_jobs.hpp"

namespace weir {
namespace {

int degree(Arguments& a, std::string_view name) {
  return static_cast<int>(a.integer_or(name, 1, 1, kMostRanks));
}

// Of the fork sail-sg/VocabularyParallelism@6191c3bf (training/arguments.py), which ignores the
// other two without the first. What it asserts of a job is refused here.
void set_vocabulary_schedule(Arguments& a, Plan& plan, std::vector<Remark>& remarks) {
  const bool divides = a.flag("enable-vocab-parallel");
  const bool interlaced = a.flag("use-interlaced-schedule");
  const bool two_barriers = a.flag("disable-backward-fusion");
  if (!divides) {
    for (const char* ignored : {"use-interlaced-schedule", "disable-backward-fusion"}) {
      if (a.flag(ignored))
        remarks.push_back({ignored, "does nothing without --enable-vocab-parallel"});
    }
    return;
  }
  for (const char* other :
       {"enable-zero-bubble", "zero-bubble-v-schedule", "enable-zbh1-pipeline"}) {
    if (a.flag(other)) a.fail("enable-vocab-parallel", fmt::format("excludes --{}", other));
  }
  if (plan.pp < 2) a.fail("enable-vocab-parallel", "needs a pipeline of at least two ranks");
  if (plan.vpp > 1) a.fail("enable-vocab-parallel", "has one chunk a rank");
  if (!a.flag("untie-embeddings-and-output-weights"))
    a.fail("enable-vocab-parallel", "needs --untie-embeddings-and-output-weights");
  constexpr const char* kDivisor = "make-vocab-size-divisible-by";
  const std::int64_t divisor = a.integer_or(kDivisor, 128, 1, kLargestSize);
  if (const int devices = plan.tp * plan.pp; divisor % devices != 0) {
    a.fail(kDivisor, fmt::format("{}: expected a multiple of tp x pp = {} with "
                                 "--enable-vocab-parallel",
                                 divisor, devices));
  }
  // Its synchronous backward asserts a sum of the input gradient, which this leaves out.
  if (interlaced && plan.sequence_parallel)
    a.fail("use-interlaced-schedule", "excludes --sequence-parallel");
  plan.schedule = interlaced ? "interlaced" : two_barriers ? "vocab-1" : "vocab-2";
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
  set_vocabulary_schedule(a, plan, remarks);
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

// Copies of a sharded optimizer, each among replicas side by side (core/parallel_state.py:
// intra_distributed_optimizer_instance_group), and what of its state the host keeps.
void set_groups(Arguments& a, Plan& plan) {
  constexpr std::string_view kInstances = "num-distributed-optimizer-instances";
  const int instances = degree(a, kInstances);
  const double fraction = a.number_or("optimizer-offload-fraction", 1, 0, 1);
  if (a.flag("optimizer-cpu-offload")) plan.offload_optimizer = fraction;
  if (instances == 1 || plan.zero == 0) return;
  if (plan.replicas() % instances != 0)
    a.fail(kInstances, fmt::format("does not divide the {} replicas", plan.replicas()));
  if (instances == plan.replicas()) {
    plan.zero = 0;  // nobody shares with anybody
    return;
  }
  plan.zero_shards = plan.replicas() / instances;
}

// What the devices of a stage and its replicas share. Megatron itself switches sequence parallelism
// off without tensor parallelism; one replica has nobody to share with or to reduce for.
void set_sharing(Arguments& a, Plan& plan, std::vector<Remark>& remarks) {
  const bool sequence = a.flag("sequence-parallel"), overlap = a.flag("overlap-grad-reduce");
  const bool sums_in_fp32 =
      a.flag("accumulate-allreduce-grads-in-fp32");  // with bf16 it always does
  const int zero = zero_stage(a);
  plan.sequence_parallel = sequence && plan.tp > 1;
  plan.overlap_tensor_parallel = a.flag("tp-comm-overlap") && plan.sequence_parallel;
  plan.zero = plan.replicas() > 1 ? zero : 0;
  plan.overlap_grad_reduce = overlap && plan.replicas() > 1;
  if (overlap && !plan.overlap_grad_reduce) {
    remarks.push_back({"overlap-grad-reduce",
                       "one replica reduces nothing; nor does a search from this plan overlap it"});
  }
  set_groups(a, plan);
  // Weights are gathered once a step where replicas share the update and no more.
  const bool gathers = plan.zero == 1 || plan.zero == 2;
  plan.overlap_param_gather = a.flag("overlap-param-gather") && gathers;
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
  if (least > 0) remarks.push_back({"min-lr", "the plan's rate does not decay"});
  if (share > 0 && rate.warmup_iters == 0)
    remarks.push_back({"lr-warmup-fraction", "of iterations that are not said: none in the plan"});
}

// Whole matrices are each device's to update under the distributed optimizer (core/optimizer/
// layer_wise_optimizer.py), of which dist_muon is an earlier name.
void set_muon(Arguments& a, Plan& plan, bool distributed, std::vector<Remark>& remarks) {
  Optimizer& o = plan.optimizer;
  o.kind = OptimizerKind::muon;
  o.momentum = a.number_or("muon-momentum", 0.9, 0, 1);
  o.nesterov = a.flag("muon-nesterov") && o.momentum > 0;
  o.newton_schulz = static_cast<int>(a.integer_or("muon-num-ns-steps", 5, 1, 100));
  const std::string mode = a.text_or("muon-tp-mode", "duplicated");
  if (mode != "duplicated" && plan.tp > 1) {
    remarks.push_back({"muon-tp-mode", fmt::format("{}: in the plan each device of tp makes whole "
                                                   "matrices orthogonal",
                                                   mode.substr(0, 40))});
  }
  // Scales of the update, and constants of its steps.
  for (const char* name : {"muon-scale-mode", "muon-extra-scale-factor", "muon-coefficient-type",
                           "muon-scalar-optimizer", "muon-fp32-matmul-prec"})
    static_cast<void>(a.text_or(name, ""));
  if (distributed && plan.replicas() > 1) plan.zero = std::max(plan.zero, 1);
}

void set_optimizer(Arguments& a, Plan& plan, std::vector<Remark>& remarks) {
  Optimizer& o = plan.optimizer;
  const std::string kind = a.text_or("optimizer", "adam");
  const bool muon = kind == "muon" || kind == "dist_muon";
  if (kind != "adam" && kind != "adamw" && kind != "sgd" && !muon) {
    a.fail("optimizer", fmt::format("{}: expected adam, sgd or muon", kind.substr(0, 40)));
  }
  o.learning_rate = a.number_or("lr", o.learning_rate, 0, 1e6);
  o.weight_decay = a.number_or("weight-decay", 0.01, 0, 1e3);
  o.clip_norm = a.number_or("clip-grad", 1, 0, 1e9);
  if (kind == "sgd") {
    o.kind = OptimizerKind::sgd;
    o.momentum = a.number_or("sgd-momentum", 0.9, 0, 1);
    return;
  }
  if (muon) set_muon(a, plan, kind == "dist_muon", remarks);
  o.beta1 = a.number_or("adam-beta1", 0.9, 0, 1);
  o.beta2 = a.number_or("adam-beta2", 0.999, 0, 1);
  o.epsilon = a.number_or("adam-eps", 1e-8, 0, 1);
}

// G = b M D, of which the file may leave M to the other two.
void set_batch(Arguments& a, Plan& plan, const std::string& file, const GivenFields& given,
               Job& job) {
  BatchSizes batch{.count = given.microbatches};
  batch.global = a.maybe_integer("global-batch-size", 1, 1 << 30);
  if (batch.global && batch.count) batch.micro = a.maybe_integer("micro-batch-size", 1, 1 << 20);
  if (const auto misfit = complete(batch, plan.dp))
    throw UsageError(
        fmt::format("microbatches {} contradicts {}: {}", *batch.count, file, *misfit));
  plan.micro_batch_size =
      static_cast<int>(batch.micro ? *batch.micro : a.integer("micro-batch-size", 1, 1 << 20));
  const std::int64_t per_step = std::int64_t{plan.micro_batch_size} * plan.dp;
  if (!batch.global && batch.count) batch.global = per_step * *batch.count;
  if (!batch.global) {
    job.remarks.push_back(
        {"global-batch-size", "not given: one micro-batch a step, as Megatron takes it"});
    return;
  }
  if (*batch.global % per_step != 0 || *batch.global / per_step > (1 << 20)) {
    throw InputError(file, "--global-batch-size",
                     fmt::format("{} is no multiple of micro-batch-size {} times {} replicas",
                                 *batch.global, plan.micro_batch_size, plan.dp));
  }
  plan.microbatches = static_cast<int>(*batch.global / per_step);
}

// What would make the forecast one of another job. Numbers of 0 and "no_shard" switch it off.
void refuse_unmodelled(Arguments& a) {
  for (const char* name : {"mtp-use-repeated-layer", "mtp-hybrid-override-pattern", "mtp-hsm"}) {
    if (a.flag(name)) a.fail(name, "this kind of multi-token prediction is not modelled");
  }
  for (const char* name : {"cpu-offload", "offload-optimizer-states"}) {
    if (a.flag(name)) a.fail(name, kOffloadNotModelled);
  }
  for (const std::string& name : a.names()) {
    if (names_adapters(name)) a.fail(name, kAdaptersNotModelled);
  }
  if (a.integer_or("ds-sequence-parallel-size", 1, 1, kMostRanks) > 1)
    a.fail("ds-sequence-parallel-size", "DeepSpeed's sequence parallelism is not modelled");
  if (a.text_or("outer-dp-sharding-strategy", "no_shard") != "no_shard")
    a.fail("outer-dp-sharding-strategy", kHybridNotModelled);
}

// Blocks that predict further tokens (core/transformer/multi_token_prediction.py).
void set_prediction(Arguments& a, const Model& model, Plan& plan) {
  plan.prediction_layers = static_cast<int>(a.integer_or("mtp-num-layers", 0, 0, kMostPredictions));
  const double weight = a.number_or("mtp-loss-scaling-factor", kPredictionWeight, 0, 1e6);
  if (plan.prediction_layers == 0) return;
  plan.prediction_weight = weight;
  if (const auto reason = cannot_predict(model)) a.fail("mtp-num-layers", *reason);
}

void fill_recompute(const Recompute& given, const std::string& file, Job& job) {
  const auto open =
      std::ranges::find(job.defaults, std::string_view(kRecomputeDefault), &Remark::name);
  if (open == job.defaults.end() && given != job.plan.recompute)
    contradicts("recompute", recompute_word(given), file, recompute_word(job.plan.recompute));
  if (open != job.defaults.end()) job.defaults.erase(open);
  job.plan.recompute = given;
}

// What else the job leaves to Megatron-LM's defaults (megatron/training/arguments.py).
void say_defaults(Arguments& a, Job& job) {
  const Plan& plan = job.plan;
  const auto unsaid = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::none_of(names, [&](std::string_view name) { return a.says(name); });
  };
  const auto take = [&](const char* what, const char* taken) {
    job.defaults.push_back({what, taken});
  };
  if (plan.dtype == Dtype::fp32) take("precision", "fp32");
  if (unsaid({"use-precision-aware-optimizer", "exp-avg-dtype", "main-params-dtype"}))
    take("optimizer state", "fp32");
  if (plan.tp > 1 && unsaid({"sequence-parallel"})) take("sequence parallelism", "off");
  if (plan.replicas() == 1) return;
  if (unsaid({"use-distributed-optimizer", "zero-stage", "use-megatron-fsdp", "use-custom-fsdp",
              "use-torch-fsdp2", "deepspeed-config"}))
    take("distributed optimizer", "off");
  if (unsaid({"overlap-grad-reduce"})) take("overlap of gradient reduction", "off");
}

}  // namespace

void fill_arguments(Arguments& a, const GivenFields& given) {
  const auto number = [&](const char* name, const auto& value, const char* field) {
    if (value) a.fill(name, fmt::to_string(*value), field);
  };
  number("seq-length", given.seq_length, "seq-length");
  number("micro-batch-size", given.micro_batch_size, "micro-batch-size");
  number("global-batch-size", given.global_batch_size, "global-batch-size");
  if (given.dtype) {
    const std::string said = a.says("bf16") ? "bf16" : a.says("fp16") ? "fp16" : "";
    const std::string word(to_string(*given.dtype));
    if (!said.empty() && said != word) contradicts("dtype", word, "the job", "--" + said);
    if (word == "bf16" || word == "fp16") a.fill(word, "", "dtype");
  }
  if (!given.attention) return;
  const bool fused = *given.attention == AttentionKind::fused;
  const std::string backend = a.says("attention-backend") ? a.values("attention-backend")
                              : a.says("use-flash-attn")  ? "flash"
                                                          : "auto";
  const bool says_fused = backend == "flash" || backend == "fused";
  if (backend != "auto" && says_fused != fused)
    contradicts("attention", std::string(to_string(*given.attention)), "the job", backend);
  if (backend == "auto") a.fill("attention-backend", fused ? "fused" : "unfused", "attention");
}

namespace {

// The text in Megatron's words where it is a job in others: an argument dump, YAML of a tool that
// starts Megatron, a script of a tool that trains ready models by it.
std::optional<TranslatedJob> translated_job(const std::string& text, const std::string& file,
                                            const JobOptions& options) {
  if (auto dumped = megatron_dump_arguments(text)) return TranslatedJob{*std::move(dumped)};
  if (auto yaml = megatron_yaml_job(text, file, options)) return yaml;
  if (megatron_recipe_arguments(text)) return std::nullopt;
  return post_trainer_job(text, file, options);
}

// The model and the plan, by one reader after the other: each marks what it understood.
void set_job(Arguments& a, const std::string& file, const JobOptions& options, Job& job) {
  Plan& plan = job.plan;
  const bool named = options.model != nullptr && !a.says("num-layers");
  job.model = named ? *options.model : megatron_model(a, options, job.remarks);
  job.model_given = named;
  const auto blocks = static_cast<std::int64_t>(job.model.layers.size()) - 3;
  plan.pp = degree(a, "pipeline-model-parallel-size");
  plan.tp = degree(a, "tensor-model-parallel-size");
  plan.cp = degree(a, "context-parallel-size");
  plan.seq_length = named ? a.integer("seq-length", 1, kLargestSize) : job.model.seq_length;
  const bool bf16 = a.flag("bf16"), fp16 = a.flag("fp16");
  if (bf16 && fp16) a.fail("bf16", "contradicts --fp16");
  plan.dtype = bf16 ? Dtype::bf16 : fp16 ? Dtype::fp16 : options.given.dtype.value_or(Dtype::fp32);
  plan.dp = replicas_of(options, megatron_devices(a), plan, file, job.remarks);
  // A recipe's own model is the one that is named, whatever its arguments leave open.
  set_prediction(a, options.model != nullptr ? *options.model : job.model, plan);
  set_sharing(a, plan, job.remarks);
  set_expert_parallelism(a, file, job);
  set_stages(a, plan, blocks, file);
  take_slimes_micro_batch(a, plan, options.given, job.remarks);
  set_batch(a, plan, file, options.given, job);
  set_schedule(a, plan, job.remarks);
  set_attention(a, job);
  set_fp8(a, job);
  set_graphs(a, job);
  set_rows(a, job);
  if (plan.prediction_layers > 0) set_treatment(job.model, plan);
  // Blocks are counted in the model as its file has it; a plan's shards stand behind them.
  const std::vector<int> of_stages = blocks_of_boundaries(plan, job.model).value();
  set_recompute(a, of_stages, job);
  if (options.given.recompute) fill_recompute(*options.given.recompute, file, job);
  // Behind what is rebuilt, which excludes the one and is not kept by the other.
  set_expert_overlap(a, job);
  set_offload(a, job);
  say_defaults(a, job);
  set_optimizer(a, plan, job.remarks);
  set_rate(a, plan, job.remarks);
  plan.seed = static_cast<std::uint64_t>(a.integer_or("seed", 1234, 0, std::int64_t{1} << 53));
}

}  // namespace

namespace {

void set_adapters(const Adapters& adapters, const std::string& file, Job& job) {
  job.plan.lora = adapters;
  set_treatment(job.model, job.plan);
  if (const auto misfit = cannot_divide(job.model, job.plan))
    throw InputError(file, "lora", misfit->reason);
}

}  // namespace

bool is_translated_job(const std::string& text, const std::string& file,
                       const JobOptions& options) {
  return translated_job(text, file, options).has_value();
}

Job read_megatron_job(const std::string& given, const std::string& file,
                      const JobOptions& options) {
  const auto translated = options.kept ? std::nullopt : translated_job(given, file, options);
  // Otherwise it is a script or a list of arguments, or YAML of Megatron's tests.
  const TranslatedJob source = translated.value_or(
      TranslatedJob{translated ? "" : megatron_recipe_arguments(given).value_or(given)});
  const std::string& text = source.arguments;
  // What still looks like a name of the environment in a translation is none.
  const ShellEnvironment environment = translated ? ShellEnvironment() : options.environment;
  const auto arguments = [&](const ShellEnvironment& values) {
    return options.kept ? Arguments::kept(text, file, values, options.files)
                        : Arguments(text, file, values, options.files);
  };
  Arguments a = arguments(environment);
  if (a.empty()) {
    throw InputError(file, "",
                     "holds no arguments, expected --num-layers and its like" +
                         (a.remarks().empty() ? "" : "; " + a.remarks().front().text));
  }
  take_other_names(a);
  refuse_other_models(a, file);
  refuse_unmodelled(a);
  Job job;
  job.remarks = source.remarks;
  take_slimes_defaults(a, options.given, job.remarks);
  fill_arguments(a, options.given);
  job.own_program = source.own_program && !is_slimes(a);
  set_job(a, file, options, job);
  if (source.lora) set_adapters(*source.lora, file, job);
  job.plan.frozen = source.frozen;
  if (!source.frozen.empty()) set_treatment(job.model, job.plan);
  const auto config = a.flag("deepspeed") ? a.text("deepspeed-config") : std::nullopt;
  const auto beside = config ? a.file_text(*config) : std::nullopt;
  if (config && !beside) {
    job.remarks.push_back(
        {"deepspeed-config",
         fmt::format("what it says of offload and precision is not read{}",
                     a.flag("zero-stage") ? "" : ", nor its ZeRO stage: 0 in the plan")});
  }
  account_for(a, job);  // last: by now every reader has marked what it understood
  add_script_remarks(source.of_script, job);
  if (source.filled_in) {
    keep_no_lines(job);
  } else {
    keep_lines(a, arguments(names_for_values(environment)), job);
  }
  if (beside)
    read_deepspeed_beside(*beside, fmt::format("{}: {}", file, *config), a.flag("zero-stage"), job);
  return job;
}

}  // namespace weir
