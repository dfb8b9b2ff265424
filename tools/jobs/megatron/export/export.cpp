// A script that starts Megatron-LM's pretrain_gpt.py; it reads back by `weir plan --from megatron`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/export/export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plan/text/quote.hpp"
#include "plan/text/words_of.hpp"
#include "tools/jobs/job/offload_modules.hpp"
#include "tools/jobs/megatron/layout/layout.hpp"
#include "tools/jobs/trainers/ask.hpp"

namespace weir {
namespace {

// Where blocks divide evenly the usual arguments say it; elsewhere the layout does.
void add_stages(MegatronArguments& s, const ResolvedPlan& loaded, const std::vector<int>& blocks,
                bool v_shaped) {
  const Plan& plan = loaded.plan;
  s.add("tensor-model-parallel-size", plan.tp);
  s.add("pipeline-model-parallel-size", plan.pp);
  s.add("context-parallel-size", plan.cp);
  const bool even = std::ranges::all_of(blocks, [&](int n) { return n == blocks.front(); });
  if (v_shaped || blocks.size() == 1) return;  // the fork halves each rank's blocks itself
  // What predicts further tokens is on the last stage where no layout says otherwise.
  const int predicting = predicting_stage(plan, loaded.model).value_or(0);
  const bool elsewhere = plan.prediction_layers > 0 && predicting + 1 != std::ssize(blocks);
  if (!even || elsewhere) {
    s.add("pipeline-model-parallel-layout",
          to_layout({blocks, plan.prediction_layers, predicting}));
  } else if (plan.vpp > 1) {
    s.add("num-layers-per-virtual-pipeline-stage", blocks.front());
  }
}

// What the devices of a stage and its replicas share.
void add_sharing(MegatronArguments& s, const Plan& plan) {
  if (plan.ep > 1) s.add("expert-model-parallel-size", plan.ep);
  if (plan.etp > 0) s.add("expert-tensor-parallel-size", plan.etp);
  if (plan.sequence_parallel) s.add("sequence-parallel");
  if (plan.overlap_tensor_parallel) s.add("tp-comm-overlap");
  if (plan.overlap_experts) s.add("overlap-moe-expert-parallel-comm");
  if (plan.zero == 1) s.add("use-distributed-optimizer");
  if (plan.zero > 1) {
    s.add("use-megatron-fsdp");
    s.add("use-distributed-optimizer");
    s.add("data-parallel-sharding-strategy", plan.zero == 2 ? "optim_grads" : "optim_grads_params");
  }
  if (plan.overlap_grad_reduce) s.add("overlap-grad-reduce");
  if (plan.overlap_param_gather) s.add("overlap-param-gather");
  if (plan.zero_shards > 0) s.add("num-distributed-optimizer-instances", plan.share_groups());
  if (plan.offload_optimizer > 0) {
    s.add("optimizer-cpu-offload");
    s.add("optimizer-offload-fraction", python_number(plan.offload_optimizer));
  }
  if (plan.rank_order == RankOrder::tp_cp_pp_dp) s.add("use-tp-pp-dp-mapping");
}

// Of all parts that Megatron offloads as large a share as makes the plan's.
void add_offload(MegatronArguments& s, const ResolvedPlan& loaded) {
  const double share = loaded.plan.offload_activations;
  if (share == 0) return;
  s.add("fine-grained-activation-offloading");
  const Recompute& recompute = loaded.plan.recompute;
  s.add(kOffloadModules, offload_modules(loaded.model, recompute));
  const double fraction = std::min(1.0, share / offloadable_share(loaded.model, recompute));
  s.add("activation-offload-fraction", fmt::format("{:.6g}", fraction));
}

// True where the schedule needs stages in a V.
bool add_schedule(MegatronArguments& s, const Plan& plan, const Allowed& allowed,
                  std::vector<Remark>& remarks) {
  const std::string& name = plan.schedule;
  if (plan.pp == 1) return false;
  if (allowed.fork && (name == "zb-h1" || name == "zb-h2")) {
    s.add("enable-zero-bubble");
    s.add("zero-bubble-max-pending-backward", name == "zb-h1" ? plan.pp : 2 * plan.pp);
    return false;
  }
  if (allowed.fork && (name == "zb-v" || name == "v-half" || name == "v-min")) {
    s.add("zero-bubble-v-schedule");
    s.add("zero-bubble-v-schedule-mem-setup", name == "zb-v"     ? "zb"
                                              : name == "v-half" ? "half"
                                                                 : "min");
    return true;
  }
  const std::string_view runs = plan.vpp > 1 ? "interleaved-1f1b" : "1f1b";
  if (name != runs) {
    remarks.push_back(
        {"schedule", fmt::format("{}: there is no order but Megatron's own, {} runs", name, runs)});
  }
  return false;
}

// What its table says a job must have, and what it says where ours is the whole job.
void add_rows(MegatronArguments& s, const ResolvedPlan& loaded, Trainer trainer, RowKind kind) {
  const TrainerFacts facts = facts_of(loaded);
  for (const TrainerRow* row : rows_that_hold(trainer, kind, facts)) {
    if (row->value == nullptr) {
      s.add(row->argument);
    } else {
      s.add(row->argument, row->value(facts));
    }
  }
}

// How many where those rebuilt are the first blocks of every stage, all of a shorter one; nullopt
// where they are others.
std::optional<int> first_of_stages(const std::vector<bool>& rebuilt,
                                   const std::vector<int>& blocks) {
  int most = 0;
  auto stage = rebuilt.begin();
  for (const int count : blocks) {
    most = std::max(most, static_cast<int>(std::find(stage, stage + count, false) - stage));
    stage += count;
  }
  stage = rebuilt.begin();
  for (const int count : blocks) {
    for (int b = 0; b < count; ++b) {
      if (*stage++ != (b < most)) return std::nullopt;
    }
  }
  return most;
}

void add_full_recompute(MegatronArguments& s, std::string_view method, int layers) {
  s.add("recompute-granularity", "full");
  s.add("recompute-method", method);
  s.add("recompute-num-layers", layers);
}

// The core alone is what the short word means.
void add_modules(MegatronArguments& s, ModuleSet modules) {
  if (modules == BlockModule::core_attn) return s.add("recompute-activations");
  std::string names;
  for (const auto& [module, name] : kBlockModules) {
    if (modules.meets(module)) names += (names.empty() ? "" : " ") + std::string(name);
  }
  s.add("recompute-granularity", "selective");
  s.add(kRecomputeModules, names);
}

// A stage at once is a chunk of all its blocks; full a chunk of one or more, or the first blocks
// of each stage.
void add_recompute(MegatronArguments& s, const ResolvedPlan& loaded, const std::vector<int>& blocks,
                   std::vector<Remark>& remarks) {
  const Recompute& recompute = loaded.plan.recompute;
  switch (recompute.mode) {
    case RecomputeMode::none:
      return;
    case RecomputeMode::selective:
      add_modules(s, recompute.modules);
      return;
    case RecomputeMode::stage:
      add_full_recompute(s, "uniform", std::max(1, *std::ranges::max_element(blocks)));
      remarks.push_back({"recompute",
                         "stage: Megatron rebuilds a stage's blocks at once, and keeps what "
                         "embedding, norm and head do"});
      return;
    case RecomputeMode::full:
      break;
  }
  const std::vector<bool> rebuilt = blocks_rebuilt(loaded, "Megatron", remarks);
  const std::optional<int> first = first_of_stages(rebuilt, blocks);
  if (std::ranges::find(rebuilt, false) == rebuilt.end()) {
    add_full_recompute(s, "uniform", recompute.at_a_time);
  } else if (first) {
    if (*first > 0) add_full_recompute(s, "block", *first);
  } else {
    add_full_recompute(s, "uniform", 1);
    remarks.push_back(
        {"recompute", fmt::format("{}: Megatron rebuilds the first blocks of each stage, as many "
                                  "of each, or all: all in the arguments",
                                  recompute_word(recompute))});
  }
}

void add_rate(MegatronArguments& s, const Optimizer& o) {
  const RateSchedule& rate = o.rate;
  s.add("lr-decay-style", to_string(rate.style));
  if (rate.warmup_iters > 0) s.add("lr-warmup-iters", rate.warmup_iters);
  if (rate.style == DecayStyle::constant) return;
  s.add("lr-decay-iters", rate.decay_iters);
  s.add("min-lr", python_number(rate.min_lr));
}

void add_adam(MegatronArguments& s, const Optimizer& o) {
  s.add("adam-beta1", python_number(o.beta1));
  s.add("adam-beta2", python_number(o.beta2));
  s.add("adam-eps", python_number(o.epsilon));
}

void add_graphs(MegatronArguments& s, const CudaGraphs& graphs) {
  if (graphs.none()) return;
  s.add("cuda-graph-impl", graphs.whole_step() ? "full_iteration" : "transformer_engine");
  if (graphs.whole_step() || graphs.whole_blocks()) return;
  std::string parts = to_string(graphs);
  std::ranges::replace(parts, '+', ' ');
  s.add(kGraphModules, parts);
}

void add_training(MegatronArguments& s, const Plan& plan, bool fork, std::vector<Remark>& remarks) {
  s.add("seq-length", plan.seq_length);
  // auto where nothing is said: a fused kernel where there is one. The fork's is said by variables.
  if (!fork)
    s.add("attention-backend", plan.attention == AttentionKind::fused ? "fused" : "unfused");
  s.add("micro-batch-size", plan.micro_batch_size);
  s.add("global-batch-size", plan.global_batch_size());
  if (plan.dtype == Dtype::bf16 || plan.dtype == Dtype::fp16) s.add(to_string(plan.dtype));
  if (plan.fp8 != Fp8Recipe::none) {
    s.add("fp8-format", "hybrid");
    if (!fork) s.add("fp8-recipe", to_string(plan.fp8));  // the fork's is delayed
    if (plan.fp8_parameters) s.add("fp8-param-gather");
  }
  add_graphs(s, plan.cuda_graphs);
  if (plan.dtype == Dtype::fp16) s.add("accumulate-allreduce-grads-in-fp32");
  if (plan.dtype == Dtype::tf32)
    remarks.push_back({"dtype", "tf32: PyTorch's own switch, fp32 in the arguments"});
  if (plan.prediction_layers > 0) {
    s.add("mtp-num-layers", plan.prediction_layers);
    if (plan.prediction_weight != kPredictionWeight)
      s.add("mtp-loss-scaling-factor", python_number(plan.prediction_weight));
  }
  const Optimizer& o = plan.optimizer;
  s.add("lr", python_number(o.learning_rate));
  s.add("weight-decay", python_number(o.weight_decay));
  s.add("clip-grad", python_number(o.clip_norm));
  add_rate(s, o);
  if (o.nesterov && o.kind == OptimizerKind::sgd)
    remarks.push_back({"nesterov", "Megatron-LM's sgd has none"});
  if (o.kind == OptimizerKind::rmsprop || o.kind == OptimizerKind::adam) {
    remarks.push_back({"optimizer", fmt::format("{}: adam, which decays weights apart from the "
                                                "gradient, in the arguments",
                                                to_string(o.kind))});
  }
  if (o.kind == OptimizerKind::sgd) {
    s.add("optimizer", "sgd");
    s.add("sgd-momentum", python_number(o.momentum));
  } else if (o.kind == OptimizerKind::muon) {
    s.add("optimizer", "muon");
    s.add("muon-momentum", python_number(o.momentum));
    if (o.nesterov) s.add("muon-nesterov");
    s.add("muon-num-ns-steps", o.newton_schulz);
    add_adam(s, o);
  } else {
    s.add("optimizer", "adam");
    add_adam(s, o);
  }
  s.add("seed", plan.seed);
}

}  // namespace

void add_megatron_run(const ResolvedPlan& loaded, const Allowed& allowed, MegatronArguments& s,
                      std::vector<Remark>& remarks) {
  const Plan& plan = loaded.plan;
  std::vector<int> blocks = stage_blocks(loaded, remarks);
  if (plan.pp == 1 && blocks.size() > 1) {
    remarks.push_back({"vpp", "one rank has one stage there"});
    blocks = {std::accumulate(blocks.begin(), blocks.end(), 0)};
  }
  const bool v_shaped = add_schedule(s, plan, allowed, remarks);
  add_stages(s, loaded, blocks, v_shaped);
  add_sharing(s, plan);
  add_offload(s, loaded);
  add_training(s, plan, allowed.fork, remarks);
  add_recompute(s, loaded, blocks, remarks);
  add_rows(s, loaded, megatron_of(allowed), RowKind::needs);
  remark_ours(plan, "Megatron-LM", remarks);
}

void add_untried(const ResolvedPlan& loaded, Trainer trainer, std::vector<Remark>& remarks) {
  for (const TrainerRow* row : rows_that_hold(trainer, RowKind::untried, facts_of(loaded))) {
    remarks.push_back(
        {std::string(row->key), fmt::format("{} ({})", row->says, row_name(trainer, *row))});
  }
}

std::string argument_words(std::string_view name, const std::string& value) {
  if (value.empty()) return "";
  if (!takes_words(name)) return " " + shell_quoted(value);
  std::string words;
  for (const std::string& word : words_of(value)) words += " " + shell_quoted(word);
  return words;
}

Trainer megatron_of(const Allowed& allowed) {
  return allowed.fork ? Trainer::fork : Trainer::megatron;
}

std::string megatron_environment(const ResolvedPlan& loaded, Trainer trainer) {
  const TrainerFacts facts = facts_of(loaded);
  std::string lines;
  for (const TrainerRow* row : rows_that_hold(trainer, RowKind::environment, facts)) {
    lines += row->value == nullptr
                 ? fmt::format("unset {}\n", row->argument)
                 : fmt::format("export {}={}\n", row->argument, row->value(facts));
  }
  return lines;
}

std::string megatron_script(const Nodes& nodes, const std::string& environment,
                            const std::string& arguments) {
  std::string launcher =
      fmt::format("torchrun --nproc_per_node {} --nnodes {}", nodes.each, nodes.count);
  if (nodes.count > 1) launcher += " --node_rank \"$NODE_RANK\" --master_addr \"$MASTER_ADDR\"";
  return fmt::format(
      "#!/bin/sh\n# Written by weir export; further arguments are passed "
      "on. Run it where pretrain_gpt.py is, on each node.\n"
      "{}exec {} pretrain_gpt.py{} \\\n  \"$@\"\n",
      environment, launcher, arguments);
}

ExportedJob export_megatron(const ResolvedPlan& loaded, const ExportOptions& options) {
  ExportedJob job;
  MegatronArguments arguments;
  add_megatron_model(loaded, arguments, job.not_carried);
  require_trainer_runs(megatron_of(options.allowed), loaded, options.allowed);
  add_megatron_run(loaded, options.allowed, arguments, job.not_carried);
  add_untried(loaded, megatron_of(options.allowed), job.not_carried);
  add_rows(arguments, loaded, megatron_of(options.allowed), RowKind::states);
  if (options.allowed.fork) {
    job.not_carried.push_back({"fork",
                               "the arguments are those of sail-sg/zero-bubble-pipeline-"
                               "parallelism: run it where that one's pretrain_gpt.py is"});
  }
  std::string lines;
  for (const auto& [name, value] : arguments.all()) {
    lines += fmt::format(" \\\n  --{}{}", name, argument_words(name, value));
  }
  if (loaded.plan.ep > 1 && loaded.plan.expert_dispatch == ExpertDispatch::by_stack) {
    job.not_carried.push_back(
        {"moe-token-dispatcher-type",
         "the plan leaves it to its stack, and alltoall is written: Megatron-Core's forecast sends "
         "a token once to each node that it visits (--expert-dispatch once), which is faster"});
  }
  const SequenceLengths& lengths = loaded.plan.lengths;
  const bool chats = lengths.known() && lengths.rows == RowsOf::packed;
  job.not_carried.push_back(
      {"data", chats ? "a plan has none: give --data-path, lines of JSON whose messages are "
                       "conversations packed into rows, a tokenizer and --train-iters"
                     : "a plan has none: give --data-path or --mock-data, a tokenizer and "
                       "--train-iters"});
  job.files.push_back(
      {"megatron.sh",
       megatron_script(nodes_of(loaded.plan, options),
                       megatron_environment(loaded, megatron_of(options.allowed)), lines)});
  job.launch = chats ? "sh megatron.sh --data-path \"$CHATS\" --tokenizer-type SFTTokenizer "
                       "--tokenizer-model \"$TOKENIZER\" --train-iters 20"
                     : "sh megatron.sh --mock-data --tokenizer-type NullTokenizer --train-iters 20";
  return job;
}

}  // namespace weir
