// DeepSpeed's configuration: how a model is trained, without the model.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/deepspeed/import.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "plan/job/recompute.hpp"
#include "plan/text/cells.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/deepspeed/words.hpp"
#include "tools/jobs/job/config_jobs.hpp"
#include "tools/jobs/job/secret_names.hpp"

namespace weir {
namespace {

constexpr std::int64_t kLargestBatch = 1 << 30;

// How the loss is scaled in fp16: neither time nor memory.
void read_loss_scaling(ConfigTable& t) {
  for (const char* key :
       {"loss_scale", "loss_scale_window", "initial_scale_power", "hysteresis", "min_loss_scale"})
    static_cast<void>(t.text_or(fmt::format("fp16.{}", key), ""));
}

Dtype deepspeed_dtype(ConfigTable& t, const JobOptions& options, std::vector<Remark>& remarks) {
  const bool bf16 = t.flag_or("bf16.enabled", t.flag_or("bfloat16.enabled", false));
  const bool fp16 = t.flag_or("fp16.enabled", false);
  if (bf16 && fp16) t.fail("bf16.enabled", "contradicts fp16.enabled");
  read_loss_scaling(t);
  static_cast<void>(t.text_or("fp16.fp16", ""));  // beside enabled in GPT-NeoX's files
  // GPT-NeoX up to 1.0 took the format from it (megatron/neox_arguments/arguments.py).
  const std::string type = t.text_or("fp16.type", "");
  if (fp16 && type.starts_with("bf"))
    remarks.push_back({"fp16.type", type.substr(0, 20) + ": GPT-NeoX 1.0 trained in it, later ones "
                                                         "do not read it: fp16 in the plan"});
  const Dtype own = bf16 ? Dtype::bf16 : fp16 ? Dtype::fp16 : Dtype::fp32;
  const Dtype taken = options.given.dtype.value_or(own);
  if ((bf16 || fp16) && taken != own)
    t.fail(bf16 ? "bf16.enabled" : "fp16.enabled",
           fmt::format("true, which contradicts {}", to_string(taken)));
  for (const char* key : {"bf16.enabled", "fp16.enabled"}) {
    if (t.is_auto(key))
      remarks.push_back({key, fmt::format("auto: the training script's to choose: {} in the plan",
                                          to_string(taken))});
  }
  return taken;
}

void set_zero(ConfigTable& t, Plan& plan) {
  const auto stage = t.integer_or("zero_optimization.stage", 0, 0, 3);
  const bool overlap = t.flag_or("zero_optimization.overlap_comm", stage == 3);
  plan.zero = plan.replicas() > 1 ? static_cast<int>(stage) : 0;
  // The pipeline engine reduces gradients after its last backward.
  plan.overlap_grad_reduce = overlap && plan.pp == 1 && plan.replicas() > 1;
}

// Optimizer's state that the host keeps: `ratio` of it (ZeRO 3 alone; runtime/zero/
// offload_config.py), all before DeepSpeed 0.4's key.
void set_offload(ConfigTable& t, Plan& plan) {
  const std::string_view key = "zero_optimization.offload_optimizer.device";
  const std::string device = t.text_or(key, "none");
  const double ratio = t.number_or("zero_optimization.offload_optimizer.ratio", 1, 0, 1);
  const bool before = t.flag_or("zero_optimization.cpu_offload", false);
  if (device == "nvme") t.fail(key, "nvme: offload to disks is not modelled");
  if (device != "none" && device != "cpu" && !device.empty())
    t.fail(key, "expected none, cpu or nvme");
  if (device == "cpu" || before) plan.offload_optimizer = plan.zero == 3 ? ratio : 1;
}

// Groups of ZeRO 3: MiCS divides within each, hpZ keeps weights divided within each beside.
void set_groups(ConfigTable& t, Plan& plan) {
  const auto mics = t.integer_or("zero_optimization.mics_shard_size", -1, -1, kMostRanks);
  const auto copies = t.integer_or("zero_optimization.zero_hpz_partition_size", 1, 0, kMostRanks);
  const int all = plan.replicas();
  if (plan.zero < 3) return;
  if (mics == 1) t.fail("zero_optimization.mics_shard_size", "1: expected more devices than one");
  if (mics > 1 && mics != all) plan.zero_shards = static_cast<int>(mics);
  if (copies > 1 && copies < plan.sharers()) plan.zero_secondary = static_cast<int>(copies);
  if (const auto misfit = cannot_share_state(plan)) {
    t.fail(misfit->key == "zero_shards" ? "zero_optimization.mics_shard_size"
                                        : "zero_optimization.zero_hpz_partition_size",
           misfit->reason);
  }
}

// G = b M D, of which DeepSpeed's file may leave one or two open.
void set_batch_size(ConfigTable& t, Plan& plan, const JobOptions& options, const std::string& file,
                    std::optional<std::int64_t> devices, std::vector<Remark>& remarks) {
  const auto global = t.integer("train_batch_size", 1, kLargestBatch);
  const auto micro = t.integer("train_micro_batch_size_per_gpu", 1, 1 << 20);
  const auto passes = t.integer("gradient_accumulation_steps", 1, 1 << 20);
  const bool three = global && micro && passes;
  const bool known = options.gpus || options.dp || devices;
  if (three && !known) {
    if (*global % (*micro * *passes) != 0)
      t.fail("train_batch_size",
             fmt::format("{} is no multiple of {} times {}", *global, *micro, *passes));
    plan.dp = static_cast<int>(*global / (*micro * *passes));
  } else {
    plan.dp = replicas_of(options, devices, plan, file, remarks);
  }
  if (!micro && !global) {
    t.fail("train_micro_batch_size_per_gpu",
           "is missing, or is the training script's to choose: give its value");
  }
  plan.micro_batch_size = static_cast<int>(
      micro ? *micro : std::max<std::int64_t>(1, *global / (passes.value_or(1) * plan.dp)));
  const std::int64_t per_pass = std::int64_t{plan.micro_batch_size} * plan.dp;
  const std::int64_t sum = global ? *global : per_pass * passes.value_or(1);
  if (sum % per_pass != 0 || sum / per_pass > (1 << 20)) {
    t.fail("train_batch_size",
           fmt::format("{} is no multiple of {} a micro-batch times {} replicas", sum,
                       plan.micro_batch_size, plan.dp));
  }
  plan.microbatches = static_cast<int>(sum / per_pass);
  if (passes && *passes != plan.microbatches) {
    t.fail(
        "gradient_accumulation_steps",
        fmt::format("{} contradicts train_batch_size {} over {} replicas", *passes, sum, plan.dp));
  }
  if (!micro && !passes) {
    remarks.push_back({"train_batch_size", "one micro-batch a step, as DeepSpeed takes it"});
  }
  if (!global && !passes) {
    remarks.push_back({"gradient_accumulation_steps",
                       "not given: one micro-batch a step, as DeepSpeed takes it"});
  }
}

void set_optimizer_section(ConfigTable& t, Plan& plan, std::vector<Remark>& remarks) {
  Optimizer& o = plan.optimizer;
  std::string kind = t.text_or("optimizer.type", "Adam");
  std::ranges::transform(kind, kind.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  o.learning_rate = t.number_or("optimizer.params.lr", o.learning_rate, 0, 1e6);
  o.weight_decay = t.number_or("optimizer.params.weight_decay", o.weight_decay, 0, 1e3);
  o.clip_norm = t.number_or("gradient_clipping", 0, 0, 1e9);
  o.epsilon = t.number_or("optimizer.params.eps", 1e-8, 0, 1);
  const auto betas = t.list("optimizer.params.betas");
  if (kind == "sgd") {
    o.kind = OptimizerKind::sgd;
    o.momentum = t.number_or("optimizer.params.momentum", 0, 0, 1);
    return;
  }
  // Of the tensors that the script marks; all else is Adam's (deepspeed/runtime/engine.py:2197-2235
  // and runtime/zero/muon/original_muon.py @edaa72212672).
  if (kind == "muon") {
    o.kind = OptimizerKind::muon;
    o.learning_rate = t.number_or("optimizer.params.muon_lr", o.learning_rate, 0, 1e6);
    o.momentum = t.number_or("optimizer.params.momentum", 0.95, 0, 1);
    o.nesterov = o.momentum > 0;
    static_cast<void>(t.number_or("optimizer.params.adam_lr", 0, 0, 1e6));
    // Engine and optimizer hand on no number of steps: they are 5 of each of the two methods.
    constexpr const char* kSteps = "optimizer.params.ns_steps";
    if (const auto steps = t.integer_or(kSteps, o.newton_schulz, 0, 1000); steps != o.newton_schulz)
      remarks.push_back({kSteps, fmt::format("{}: DeepSpeed takes {}", steps, o.newton_schulz)});
    const std::string method = t.text_or("optimizer.params.ns_method", "gram");
    if (method != "gram" && method != "standard")
      t.fail("optimizer.params.ns_method", "expected gram or standard");
    remarks.push_back({"optimizer.type",
                       "Muon of the tensors that the training script marks: in the plan of blocks' "
                       "matrices"});
  } else if (kind.find("adam") == std::string::npos) {
    remarks.push_back({"optimizer.type", kind + ": the plan has Adam"});
  }
  if (betas.size() == 2) {
    const auto beta = [&](const std::string& text) {
      const double value = std::strtod(text.c_str(), nullptr);
      if (!(value >= 0 && value < 1)) t.fail("optimizer.params.betas", "expected two below 1");
      return value;
    };
    o.beta1 = beta(betas[0]);
    o.beta2 = beta(betas[1]);
  }
}

// The rate's course as deepspeed/runtime/lr_schedules.py has it (0.16): up to warmup_max_lr in
// warmup_num_steps, by default along a logarithm, then as it is, down to 0 in a line, or along a
// cosine, at total_num_steps.
void set_scheduler(ConfigTable& t, Plan& plan, std::vector<Remark>& remarks) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const std::string type = t.text_or("scheduler.type", "");
  if (type.empty()) return;
  const bool cosine = type == "WarmupCosineLR", linear = type == "WarmupDecayLR";
  if (!cosine && !linear && type != "WarmupLR") {
    remarks.push_back({"scheduler.type", type.substr(0, 40) + ": constant in the plan"});
    return;
  }
  const auto of = [](std::string_view key) { return fmt::format("scheduler.params.{}", key); };
  Optimizer& o = plan.optimizer;
  RateSchedule& rate = o.rate;
  rate.warmup_iters = t.integer_or(of("warmup_num_steps"), 1000, 0, kMost);
  if (!cosine) o.learning_rate = t.number_or(of("warmup_max_lr"), o.learning_rate, 0, 1e6);
  const std::string first = of(cosine ? "warmup_min_ratio" : "warmup_min_lr");
  if (t.number_or(first, 0, 0, 1e6) > 0)
    remarks.push_back({first, "the plan's warm-up begins at 0"});
  if (t.text_or(of("warmup_type"), "log") != "linear" && rate.warmup_iters > 0)
    remarks.push_back({of("warmup_type"), "log, DeepSpeed's own: the plan's warm-up is linear"});
  if (!cosine && !linear) return;
  const std::int64_t total = t.integer_or(of("total_num_steps"), 0, 0, kMost);
  const double least = cosine ? t.number_or(of("cos_min_ratio"), 1e-4, 0, 1) * o.learning_rate : 0;
  if (total <= rate.warmup_iters) {
    remarks.push_back(
        {of("total_num_steps"), "no number of steps above the warm-up's: constant in the plan"});
    return;
  }
  rate.style = cosine ? DecayStyle::cosine : DecayStyle::linear;
  rate.decay_iters = total;
  rate.min_lr = least;
}

constexpr const char* kCheckpointsDivided = "activation_checkpointing.partition_activations";

// The script hands the section on (deepspeed.checkpointing.configure), and rebuilds.
void set_checkpoints(ConfigTable& t, Job& job) {
  const bool away = t.flag_or(kCheckpointsAway, false);
  if (!away) return;
  keep_checkpoints_with_host(kCheckpointsAway, t.flag_or(kCheckpointsDivided, false), job);
}

// What the plan has where the training script fills the file in.
void say_open_numbers(const ConfigTable& t, const Plan& plan, std::vector<Remark>& remarks) {
  const Optimizer& o = plan.optimizer;
  const auto say = [&](std::string_view key, const auto& taken) {
    if (t.is_auto(key))
      remarks.push_back(
          {std::string(key),
           fmt::format("auto: the training script's to choose: {} in the plan", taken)});
  };
  say("optimizer.params.lr", o.learning_rate);
  say("optimizer.params.weight_decay", o.weight_decay);
  say("optimizer.params.eps", o.epsilon);
  say("optimizer.params.betas", fmt::format("{} and {}", o.beta1, o.beta2));
  say("gradient_clipping", o.clip_norm);
  say("zero_optimization.stage", plan.zero);
  say("scheduler.params.warmup_num_steps", o.rate.warmup_iters);
}

// Attention and re-materialisation are the training script's. Transformers' own attention is
// PyTorch's scaled_dot_product_attention since 4.36 (modeling_utils.py,
// _check_and_enable_sdpa), which keeps the statistics alone.
void set_script_choices(const GivenFields& given, Job& job) {
  job.plan.attention = given.attention.value_or(AttentionKind::fused);
  if (!given.attention) {
    job.defaults.push_back({"attention",
                            "fused (the training script's to choose; transformers take "
                            "scaled_dot_product_attention)"});
  }
  job.plan.recompute = given.recompute.value_or(Recompute{});
  if (!given.recompute)
    job.defaults.push_back({"re-materialisation", "none (the training script's to choose)"});
}

// A text with one, or a list of such texts.
bool has_password(const Json& value) {
  if (value.is_array())
    return std::any_of(value.begin(), value.end(), [](const Json& one) {
      return one.is_string() && holds_a_password(one.get<std::string>());
    });
  return value.is_string() && holds_a_password(value.get<std::string>());
}

void leave_out_secrets(Json& json, int depth, std::vector<std::string>& names) {
  constexpr int kDeepest = 64;
  if (depth > kDeepest || !json.is_structured()) return;
  if (json.is_object()) {
    for (auto entry = json.begin(); entry != json.end();) {
      const bool secret =
          (names_a_secret(entry.key()) && !entry->is_structured()) || has_password(*entry);
      if (secret) names.push_back(entry.key());
      entry = secret ? json.erase(entry) : std::next(entry);
    }
  }
  for (Json& value : json) leave_out_secrets(value, depth + 1, names);
}

// Without secrets, which a text of its own then says.
void keep_json(const std::string& text, Job& job) {
  job.lines = job_lines(text);
  Json json = Json::parse(text);
  std::vector<std::string> left_out;
  leave_out_secrets(json, 0, left_out);
  if (left_out.empty()) return;
  job.lines = job_lines(json.dump(2));
  job.remarks.push_back(
      {"job", fmt::format("not kept beside the plan, a secret: {}", fmt::join(left_out, " "))});
}

}  // namespace

void keep_checkpoints_with_host(std::string_view name, bool divided, Job& job) {
  Plan& plan = job.plan;
  // A plan's share is of every block: of those that are not rebuilt all would go.
  if (!rebuilds_every_block(plan.recompute)) {
    job.remarks.push_back(
        {std::string(name),
         fmt::format("true: inputs of DeepSpeed's own checkpoints go to the host, in the plan "
                     "where every block is rebuilt (recompute full); with {} nothing does",
                     recompute_word(plan.recompute))});
    return;
  }
  plan.offload_activations = 1;
  if (!divided) return;
  // That path has no stream of its own: .cpu() and .to(device), which wait.
  std::string lost =
      "true, beside divided activations: copies are waited for, as a stack's `blocking_offload` "
      "has it";
  if (plan.tp > 1 && !plan.sequence_parallel)
    lost +=
        fmt::format("; they are of 1 in {} of an input there, of all of it in the plan", plan.tp);
  job.remarks.push_back({std::string(name), std::move(lost)});
}

void fill_deepspeed(ConfigTable& t, const GivenFields& given) {
  const auto fill = [&](const char* key, const auto& value, const char* field) {
    if (value) t.fill(key, fmt::to_string(*value), field);
  };
  fill("train_micro_batch_size_per_gpu", given.micro_batch_size, "micro-batch-size");
  fill("gradient_accumulation_steps", given.microbatches, "microbatches");
  fill("train_batch_size", given.global_batch_size, "global-batch-size");
}

void say_deepspeed_defaults(const ConfigTable& t, Job& job) {
  const Plan& plan = job.plan;
  const auto take = [&](const char* what, const char* taken) {
    job.defaults.push_back({what, taken});
  };
  if (plan.dtype == Dtype::fp32) take("precision", "fp32");
  if (plan.replicas() == 1) return;
  if (!t.has("zero_optimization.stage")) take("ZeRO", "stage 0");
  if (!t.has("zero_optimization.overlap_comm"))
    take("overlap of gradient reduction", plan.zero == 3 ? "on" : "off");
}

void read_deepspeed(ConfigTable& t, Plan& plan, const JobOptions& options, const std::string& file,
                    std::vector<Remark>& remarks) {
  plan.dtype = deepspeed_dtype(t, options, remarks);
  const auto nodes = t.integer("num_nodes", -1, 1 << 16), gpus = t.integer("num_gpus", 1, 1 << 20);
  auto devices = t.integer("global_num_gpus", 1, 1 << 24);
  if (!devices && gpus) devices = *gpus * std::max<std::int64_t>(nodes.value_or(1), 1);
  set_batch_size(t, plan, options, file, devices, remarks);
  set_zero(t, plan);
  set_offload(t, plan);
  set_groups(t, plan);
  set_optimizer_section(t, plan, remarks);
  set_scheduler(t, plan, remarks);
  say_open_numbers(t, plan, remarks);
}

void read_deepspeed_beside(const std::string& text, const std::string& file, bool has_stage,
                           Job& job) {
  std::optional<ConfigTable> read;
  try {
    read.emplace(text, file);
  } catch (const InputError&) {
    job.remarks.push_back(
        {"deepspeed-config", "is no JSON as far as it is known: what it says is not read"});
    return;
  }
  ConfigTable& t = *read;
  // The arguments' own, or a script's words that are not known here.
  for (const char* key :
       {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps",
        "gradient_clipping", "bf16.enabled", "fp16.enabled"})
    static_cast<void>(t.text_or(key, ""));
  read_loss_scaling(t);
  const std::string said = t.text_or("zero_optimization.stage", "");
  const auto stage = said.empty() ? 0 : whole_number<int>(said).value_or(-1);
  const int here = job.plan.replicas() > 1 ? stage : 0;
  if (stage < 0 || stage > 3) {
    job.remarks.push_back(
        {"zero_optimization.stage",
         fmt::format("{}: not known here: {} in the plan", said.substr(0, 40), job.plan.zero)});
  } else if (!has_stage) {
    job.plan.zero = here;
  } else if (here != job.plan.zero) {
    job.remarks.push_back(
        {"zero_optimization.stage",
         fmt::format("{}: the arguments say otherwise: {} in the plan", stage, job.plan.zero)});
  }
  set_offload(t, job.plan);
  set_groups(t, job.plan);
  if (t.flag_or(kCheckpointsAway, false))
    job.remarks.push_back({kCheckpointsAway, kArgumentsSayIt});
  t.account_for(unread_deepspeed_key, job);
  std::ranges::sort(job.arguments, {}, &JobArgument::name);
}

UnreadArgument unread_deepspeed_key(std::string_view path) {
  for (const auto& [prefix, why] : deepspeed_words::kMeanings) {
    if (path.starts_with(prefix)) return {Fate::not_carried, why};
  }
  for (const std::string_view prefix : deepspeed_words::kBeside) {
    if (path.starts_with(prefix)) return {};
  }
  return {Fate::unknown, "not understood: it may change time or memory"};
}

std::vector<int> balanced_blocks(ConfigTable& t, std::string_view key, std::int64_t blocks,
                                 std::int64_t stages) {
  const std::int64_t most = (blocks + stages - 1) / stages;
  std::vector<int> all;
  std::int64_t left = blocks;
  for (std::int64_t s = 0; s < stages; ++s) {
    // Every stage that follows keeps one.
    const std::int64_t mine = std::min(most, left - (stages - 1 - s));
    if (mine < 1) t.fail(key, fmt::format("{} blocks leave a stage of {} empty", blocks, stages));
    all.push_back(static_cast<int>(mine));
    left -= mine;
  }
  return all;
}

Job read_deepspeed_job(const std::string& text, const std::string& file,
                       const JobOptions& options) {
  ConfigTable t(text, file);
  const bool known = t.has("train_batch_size") || t.has("train_micro_batch_size_per_gpu") ||
                     t.has("zero_optimization") || t.has("fp16") || t.has("bf16");
  if (!known)
    throw InputError(file, "", "is no configuration of DeepSpeed: it names no batch size");
  if (options.model == nullptr)
    throw InputError(file, "", "DeepSpeed's configuration has no model: give the model's file too");
  fill_deepspeed(t, options.given);
  Job job;
  job.model = *options.model;
  Plan& plan = job.plan;
  plan.seq_length = options.given.seq_length.value_or(job.model.seq_length);
  if (plan.seq_length == 0 && job.model.max_positions > 0) {
    throw InputError(file, "",
                     "DeepSpeed's configuration has no number of tokens a sample, and the model's "
                     "file has none: give seq-length");
  }
  plan.pp = static_cast<int>(t.integer_or("pipeline.stages", 1, 1, kMostRanks));
  plan.schedule = "1f1b";
  if (!t.has("pipeline.stages")) {
    job.remarks.push_back(
        {"pipeline.stages", "the stages of a pipeline are the training script's: one supposed"});
  }
  read_deepspeed(t, plan, options, file, job.remarks);
  if (plan.pp > 1) {
    const auto decoder = as_decoder(job.model);
    if (!decoder) t.fail("pipeline.stages", "needs a model of equal blocks");
    plan.boundaries =
        boundaries_of_blocks(balanced_blocks(t, "pipeline.stages", decoder->blocks, plan.pp));
  }
  set_script_choices(options.given, job);
  set_checkpoints(t, job);
  say_deepspeed_defaults(t, job);
  t.account_for(unread_deepspeed_key, job);
  if (Json::accept(text)) keep_json(text, job);
  return job;
}

}  // namespace weir
