// A torchtitan job file: its tables in turn, each with torchtitan's own defaults.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/torchtitan/import.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "plan/model/limits.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/job/secret_names.hpp"
#include "tools/jobs/job/unmodelled.hpp"
#include "tools/jobs/python/evaluate.hpp"
#include "tools/jobs/toml/open_lines.hpp"
#include "tools/jobs/toml/table.hpp"
#include "tools/jobs/torchtitan/converters.hpp"
#include "tools/jobs/torchtitan/models.hpp"
#include "tools/jobs/torchtitan/registry.hpp"
#include "tools/jobs/torchtitan/stages.hpp"
#include "tools/jobs/torchtitan/training.hpp"
#include "tools/jobs/torchtitan/words.hpp"

namespace weir {
namespace {

// Tables that change neither time nor memory of a step, and keys of the same kind in the others.
bool harmless(std::string_view path) {
  constexpr std::array<std::string_view, 8> kTables{"job.",          "profiling.", "metrics.",
                                                    "checkpoint.",   "comm.",      "validation.",
                                                    "experimental.", "debug."};
  constexpr std::array<std::string_view, 21> kKeys{
      "training.dataset", "training.dataset_path", "training.gc_freq", "training.gc_debug",
      "model.tokenizer_path", "model.hf_assets_path", "model.print_after_conversion",
      "model.attn_backend", "compile.components", "compile.backend",
      // As a registry has them.
      "hf_assets_path", "dump_folder", "profiling", "profiler", "metrics", "tokenizer",
      "dataloader", "checkpoint", "comm", "validator", "override"};
  return std::ranges::find(kKeys, path) != kKeys.end() ||
         std::ranges::any_of(kTables,
                             [&](std::string_view table) { return path.starts_with(table); });
}

// Samples that a replica takes at once: a pipeline's micro-batches, or one.
std::int64_t local_batch(TomlTable& t, const Plan& plan, const GivenFields& given,
                         const std::string& file) {
  auto said = t.integer("training.local_batch_size", 1, 1 << 20);
  if (const auto older = t.integer("training.batch_size", 1, 1 << 20); !said) said = older;
  const auto size = t.integer("parallelism.pipeline_parallel_microbatch_size", 1, 1 << 20);
  if (plan.pp == 1)
    return filled("micro-batch-size", said, given.micro_batch_size, file).value_or(8);
  if (!given.microbatches) return said.value_or(8);
  const std::int64_t b = size.value_or(given.micro_batch_size.value_or(1));
  return *filled("microbatches times micro-batch-size", said,
                 std::optional(b * *given.microbatches), file);
}

void set_batch(TomlTable& t, Plan& plan, const GivenFields& given, const std::string& file,
               std::vector<Remark>& remarks) {
  const std::int64_t local = local_batch(t, plan, given, file);
  const auto said_size = t.integer("parallelism.pipeline_parallel_microbatch_size", 1, 1 << 20);
  const std::int64_t size =
      plan.pp == 1
          ? 1
          : filled("micro-batch-size", said_size, given.micro_batch_size, file).value_or(1);
  const auto count = t.integer("parallelism.num_pp_microbatches", 1, 1 << 20);
  auto said_global = t.integer("training.global_batch_size", -1, 1 << 30);
  if (said_global.value_or(1) <= 0) said_global.reset();
  auto asked = given.global_batch_size;
  if (!asked && plan.pp == 1 && given.microbatches) asked = *given.microbatches * local * plan.dp;
  const std::int64_t global = filled("global-batch-size", said_global, asked, file).value_or(-1);
  // Without a pipeline the local batch is one micro-batch.
  plan.micro_batch_size = static_cast<int>(plan.pp == 1 ? local : count ? local / *count : size);
  if (plan.micro_batch_size < 1 || local % plan.micro_batch_size != 0) {
    t.fail("training.local_batch_size",
           fmt::format("{} does not divide into its micro-batches", local));
  }
  plan.microbatches = static_cast<int>(local / plan.micro_batch_size);
  if (global <= 0 || global == local * plan.dp) return;
  if (global % (local * plan.dp) != 0) {
    t.fail("training.global_batch_size",
           fmt::format("{} is no multiple of local_batch_size {} times {} replicas", global, local,
                       plan.dp));
  }
  const std::int64_t passes = global / (local * plan.dp);
  if (plan.pp == 1) {
    plan.microbatches =
        static_cast<int>(passes);  // accumulated one after the other, as a plan does
    return;
  }
  remarks.push_back({"training.global_batch_size",
                     fmt::format("{} pipeline passes are accumulated before an update: "
                                 "the plan is for one",
                                 passes)});
}

// FSDP as ZeRO's stages; it shards among the context-parallel devices too. A pipeline keeps the
// gathered weights unless told otherwise, and sums its gradients before it reduces them once: stage
// 1. Without one each accumulated micro-batch is reduced: stage 2, or 3 where weights are let go
// after each forward, as they are unless told otherwise.
void set_sharing(TomlTable& t, Plan& plan, std::int64_t copies, std::int64_t shards,
                 std::vector<Remark>& remarks) {
  const std::string_view key = "parallelism.fsdp_reshard_after_forward";
  const std::string reshard = t.text_or(key, "default");
  if (reshard != "default" && reshard != "always" && reshard != "never") {
    t.fail(key, "expected default, always or never");
  }
  plan.sequence_parallel = plan.tp > 1;  // always, of the models that are known here
  // Of compiled models alone (config/configs.py, CompileConfig); 0.2 has the key beside the
  // degrees.
  const bool pipelines = t.flag_or("compile.enable_async_tensor_parallel",
                                   t.flag_or("parallelism.enable_async_tensor_parallel", false));
  plan.overlap_tensor_parallel = pipelines && plan.tp > 1;
  plan.overlap_grad_reduce = plan.replicas() > 1;
  const bool sharded = plan.cp > 1 || (shards != 1 && plan.dp > copies);
  if (!sharded) return;
  const bool lets_go = reshard == "always" || (reshard == "default" && plan.pp == 1);
  plan.zero = lets_go ? 3 : plan.pp > 1 ? 1 : 2;
  // Copies that are each sharded among the devices side by side (distributed/parallel_dims.py).
  if (copies > 1 && plan.replicas() > copies)
    plan.zero_shards = static_cast<int>(plan.replicas() / copies);
  if (plan.zero == 3 && plan.pp > 1) {
    remarks.push_back(
        {std::string(key),
         "always: gradients are reduced once a step, in the plan with each micro-batch"});
  }
}

// torchtitan refuses degrees whose product is not the number of devices (distributed/
// parallel_dims.py, _validate).
void refuse_other_devices(TomlTable& t, const Plan& plan, const JobOptions& options) {
  const int product = plan.dp * plan.cp * plan.tp * plan.pp;
  const int devices = options.gpus ? *options.gpus
                      : options.dp ? *options.dp * plan.cp * plan.tp * plan.pp
                                   : product;
  if (devices == product) return;
  t.fail("parallelism.data_parallel_shard_degree",
         fmt::format("dp_replicate times dp_shard {} times cp {} times tp {} times pp {} are {} "
                     "devices, not {}: torchtitan refuses that; -1 takes as many as are left",
                     plan.dp, plan.cp, plan.tp, plan.pp, product, devices));
}

void set_replicas(TomlTable& t, Plan& plan, const JobOptions& options, const std::string& file,
                  std::vector<Remark>& remarks) {
  const std::int64_t copies =
      t.integer_or("parallelism.data_parallel_replicate_degree", 1, 1, kMostRanks);
  const std::int64_t shards =
      t.integer_or("parallelism.data_parallel_shard_degree", -1, -1, kMostRanks);
  if (shards == -1) {
    plan.dp = replicas_of(options, std::nullopt, plan, file, remarks);
    if (plan.dp % copies != 0) {
      t.fail("parallelism.data_parallel_replicate_degree",
             fmt::format("{} does not divide the {} replicas", copies, plan.dp));
    }
  } else {
    plan.dp = static_cast<int>(copies * std::max<std::int64_t>(shards, 1));
    refuse_other_devices(t, plan, options);
  }
  set_sharing(t, plan, copies, shards, remarks);
}

// Experts are shared among the devices that share weights, and among tensor-parallel ones where
// these do not divide each expert (distributed/parallel_dims.py: efsdp = dp_shard cp tp / (ep
// etp)).
void set_experts(TomlTable& t, Plan& plan, const Model& model, std::vector<Remark>& remarks) {
  const std::string_view key = "parallelism.expert_parallel_degree",
                         tensor_key = "parallelism.expert_tensor_parallel_degree";
  const auto degree = static_cast<int>(t.integer_or(key, 1, 1, kMostRanks));
  const std::int64_t tensor = t.integer_or(tensor_key, 1, 1, kMostRanks);
  const std::string_view backend_key = "parallelism.expert_parallel_comm_backend";
  const std::string backend = t.text_or(backend_key, "standard");
  const bool minimal = backend == "minimal_async_ep";
  const bool all_to_all = backend == "standard" || minimal;
  if (!all_to_all && backend != "deepep" && backend != "hybridep")
    t.fail(backend_key, "expected standard, deepep, hybridep or minimal_async_ep");
  if (degree == 1 || !has_experts(model)) return;  // without experts it has no effect there either
  if (minimal)
    remarks.push_back({std::string(backend_key), "minimal_async_ep: as all to all in the plan"});
  plan.ep = degree;
  plan.expert_dispatch = all_to_all ? ExpertDispatch::alltoall : ExpertDispatch::once;
  if (tensor != plan.tp) plan.etp = static_cast<int>(tensor);
  if (const auto misfit = cannot_divide(model, plan))
    t.fail(misfit->key == "etp" ? tensor_key : key, misfit->reason);
}

// Every k-th block of a rank, counted over its stages in order (torchtitan 0.1,
// models/llama3/infra/parallelize.py, _apply_ac_to_transformer_block: one counter a process).
std::vector<bool> every_kth(const Plan& plan, const std::vector<int>& of_stages, std::int64_t k) {
  const bool v_shaped = plan.schedule == "zb-v" || plan.schedule == "dualpipev";
  std::vector<std::int64_t> counted(static_cast<std::size_t>(plan.pp));
  std::vector<bool> rebuilt;
  for (int s = 0; s < plan.stages(); ++s) {
    const int rank = v_shaped && s >= plan.pp ? plan.stages() - 1 - s : s % plan.pp;
    for (int b = 0; b < of_stages[static_cast<std::size_t>(s)]; ++b)
      rebuilt.push_back(++counted[static_cast<std::size_t>(rank)] % k == 0);
  }
  return rebuilt;
}

void set_recompute(TomlTable& t, Plan& plan, const Model& model, std::vector<Remark>& remarks) {
  const std::string mode = t.text_or("activation_checkpoint.mode", "selective");
  const std::string option = t.text_or("activation_checkpoint.selective_ac_option", "2");
  if (mode == "full") {
    plan.recompute.mode = RecomputeMode::full;
  } else if (mode == "selective" && option == "op") {
    plan.recompute.mode = RecomputeMode::selective;
    remarks.push_back({"activation_checkpoint.mode",
                       "selective (by operation): so it is for torchtitan's stacks; for any other "
                       "the plan's selective is the attention core"});
  } else if (mode == "selective") {
    const bool digits = option.size() < 7 && !option.empty() &&
                        option.find_first_not_of("0123456789") == std::string::npos;
    const std::int64_t k = digits ? std::stoll(option) : 0;
    if (k < 1) {
      t.fail("activation_checkpoint.selective_ac_option",
             "expected op, or which layers: 2 for every second one");
    }
    const auto of_stages = blocks_of_boundaries(plan, model);
    if (k == 1) {
      plan.recompute.mode = RecomputeMode::full;
    } else if (of_stages) {
      plan.recompute = rebuilt_blocks(every_kth(plan, *of_stages, k));
    } else {  // the first stage without the embedding, or a model of other layers
      remarks.push_back({"activation_checkpoint.selective_ac_option",
                         fmt::format("{}: the plan keeps everything", option)});
    }
  } else if (mode != "none") {
    t.fail("activation_checkpoint.mode", "expected none, selective or full");
  }
}

Model model_of(TomlTable& t, const JobOptions& options, std::int64_t seq_length) {
  const std::string name = t.text_or("model.name", "llama3"),
                    flavor = t.text_or("model.flavor", "debugmodel");
  if (options.model != nullptr) return *options.model;
  auto model = torchtitan_model(name, flavor, seq_length);
  if (!model) {
    t.fail("model.flavor", fmt::format("the sizes of {} {} are not known here: give its model",
                                       name.substr(0, 40), flavor.substr(0, 40)));
  }
  if (options.vocabulary) {
    std::get<EmbeddingShape>(model->layers.front().shape).vocabulary = *options.vocabulary;
    std::get<HeadShape>(model->layers.back().shape).vocabulary = *options.vocabulary;
  }
  model->name = fmt::format("{}-{}", name, flavor);
  return *model;
}

// A file of 0.2, whose key this is not, has none; a pipeline and experts have none either
// (torchtitan/trainer.py, Trainer.Config.__post_init__ @b5bcd76c66d0).
void set_graphs(TomlTable& t, Plan& plan) {
  const std::string key = "training.disable_cuda_graphs";
  if (t.flag_or(key, true)) return;
  if (plan.pp > 1 || plan.ep > 1)
    t.fail(key, "expected true: CUDA graphs know no pipeline and no expert parallelism there");
  plan.cuda_graphs = CudaGraphs::of_step();
}

// What is compiled is another stack than what is not.
std::string stack_of(TomlTable& t, std::vector<Remark>& remarks) {
  const bool model = t.list("compile.components").empty() ||
                     std::ranges::count(t.list("compile.components"), "model") > 0;
  const bool enabled = t.flag_or("compile.enable", t.flag_or("training.compile", false));
  if (enabled && !model)
    remarks.push_back(
        {"compile.components", "the loss alone is compiled: the stack is the eager one"});
  return enabled && model ? "torchtitan" : "torchtitan-eager";
}

// Every key with what became of it; what nobody read and may matter is named.
void account_for(const TomlTable& t, Job& job) {
  const std::vector<TomlTable::Leaf> leaves = t.leaves();
  for (const TomlTable::Leaf& leaf : leaves) {
    const bool secret = !t.was_read(leaf.path) && is_secret(leaf.path, leaf.value);
    const std::string value = secret ? kSecretValue : leaf.value;
    const bool off = is_off_with_section(leaf.path, [&leaves](const std::string& path) {
      const auto found = std::ranges::find(leaves, path, &TomlTable::Leaf::path);
      return found == leaves.end() ? std::string() : found->value;
    });
    const auto why = off ? std::nullopt : unmodelled(leaf.path, value);
    if (why) t.fail(leaf.path, *why);
    JobArgument argument{leaf.path, value, Fate::carried};
    // The loss that every plan has; one over chunks of the logits keeps fewer of them.
    const bool usual = leaf.path == "loss" && leaf.value.starts_with("'CrossEntropyLoss.");
    if (usual || t.was_read(leaf.path) || leaf.path == job.rows.name) {
      const bool remarked = std::ranges::any_of(
          job.remarks, [&](const Remark& remark) { return remark.name == leaf.path; });
      if (remarked) argument.fate = Fate::changed;
    } else if (off || leaf.value == "false" || leaf.value == "[]" ||
               (harmless(leaf.path) && !is_of_adapters(leaf.path))) {
      argument.fate = Fate::no_effect;  // switched off, or beside the step
    } else {
      argument.fate = Fate::not_carried;
      job.remarks.push_back(
          {leaf.path,
           fmt::format("{}: {}", value,
                       is_of_adapters(leaf.path) ? kFullTraining
                                                 : "not modelled: it may change time or memory")});
    }
    job.arguments.push_back(std::move(argument));
  }
}

// What the user says in the place of torchtitan's defaults (config/job_config.py), and the defaults
// that are left.
void fill_and_say(TomlTable& t, const GivenFields& given, const std::string& file, Job& job) {
  Plan& plan = job.plan;
  const std::string mode = "activation_checkpoint.mode";
  if (given.recompute && *given.recompute != plan.recompute) {
    if (t.has(mode))
      contradicts("recompute", recompute_word(*given.recompute), file,
                  fmt::format("{}: {}", mode, recompute_word(plan.recompute)));
    plan.recompute = *given.recompute;
  } else if (!t.has(mode)) {
    job.defaults.push_back({"re-materialisation", recompute_word(plan.recompute)});
  }
  const std::string precision = "training.mixed_precision_param";
  if (given.dtype && *given.dtype != plan.dtype) {
    if (t.has(precision) || t.has("training.dtype"))
      contradicts("dtype", std::string(to_string(*given.dtype)), file,
                  fmt::format("{}: {}", precision, to_string(plan.dtype)));
    plan.dtype = *given.dtype;
  } else if (!t.has(precision) && !t.has("training.dtype")) {
    job.defaults.push_back({"precision", std::string(to_string(plan.dtype))});
  }
  if (!t.has("compile.enable") && !t.has("training.compile"))
    job.defaults.push_back({"compilation", "off"});
}

// The TOML of 0.2, which goes out again, without secrets.
void keep_toml(const std::string& text, const std::string& file, Job& job) {
  OpenLines open = open_lines(text, file);
  job.lines = std::move(open.lines);
  if (open.left_out.empty()) return;
  job.remarks.push_back({"job", fmt::format("not kept beside the plan, a secret: {}",
                                            fmt::join(open.left_out, " "))});
}

}  // namespace

std::string torchtitan_stack(const std::string& toml, const std::string& file) {
  TomlTable table(toml, file);
  std::vector<Remark> remarks;  // the reader of the whole job says them
  return stack_of(table, remarks);
}

Job read_torchtitan_job(const std::string& text, const std::string& file,
                        const JobOptions& options) {
  Job job;
  TomlTable t(is_python(text) ? torchtitan_registry_as_toml(text, file, options.config, job) : text,
              file);
  if (!is_python(text)) keep_toml(text, file, job);
  if (!t.has("training") && !t.has("parallelism"))
    t.fail("parallelism", "is missing: expected a torchtitan job");
  Plan& plan = job.plan;
  const GivenFields& given = options.given;
  plan.seq_length =
      filled("seq-length", t.integer("training.seq_len", 1, kLargestSize), given.seq_length, file)
          .value_or(2048);
  job.model = model_of(t, options, plan.seq_length);
  plan.attention = AttentionKind::fused;  // every backend that it has is
  if (given.attention.value_or(plan.attention) != plan.attention)
    contradicts("attention", "unfused", file, "what every backend of torchtitan is: fused");
  job.stack = stack_of(t, job.remarks);
  plan.pp =
      static_cast<int>(t.integer_or("parallelism.pipeline_parallel_degree", 1, 1, kMostRanks));
  plan.tp = static_cast<int>(t.integer_or("parallelism.tensor_parallel_degree", 1, 1, kMostRanks));
  plan.cp = static_cast<int>(t.integer_or("parallelism.context_parallel_degree", 1, 1, kMostRanks));
  if (!is_language_model(job.model))
    t.fail("model.flavor", "its model is no embedding, blocks, norm and head");
  set_replicas(t, plan, options, file, job.remarks);
  set_experts(t, plan, job.model, job.remarks);
  set_batch(t, plan, given, file, job.remarks);
  set_torchtitan_pipeline(t, plan, static_cast<std::int64_t>(job.model.layers.size()) - 3);
  set_recompute(t, plan, job.model, job.remarks);
  set_torchtitan_training(t, plan, job.remarks);
  set_converters(t, job);
  set_graphs(t, plan);
  // A registry's packing, by a name that no TOML has.
  if (const auto rows = parse_rows_of(t.text_or("rows", "")); rows && is_python(text))
    job.rows = {"dataloader", *rows};
  fill_and_say(t, given, file, job);
  plan.seed = static_cast<std::uint64_t>(
      t.integer_or("training.seed", t.integer_or("debug.seed", 1, 0, std::int64_t{1} << 53), 0,
                   std::int64_t{1} << 53));
  account_for(t, job);
  return job;
}

}  // namespace weir
