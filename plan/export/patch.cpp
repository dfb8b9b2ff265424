// Both plans, the script's and the wanted one, go through the same exporter: where its words
// differ, the script changes. The changed arguments are read again, and what is not the wanted plan
// then is said.
// SPDX-License-Identifier: Apache-2.0
#include "plan/export/patch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <string_view>

#include "plan/import/arguments.hpp"
#include "plan/import/megatron.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/text/cells.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;
using ArgumentGroup = std::span<const std::string_view>;

// Arguments that say one thing together, in several ways: where one of the exporter's changes, all
// that a script may say it by do.
constexpr std::array<std::string_view, 8> kStages{
    "num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank",
    "pipeline-model-parallel-layout",        "decoder-first-pipeline-num-layers",
    "decoder-last-pipeline-num-layers",      "account-for-embedding-in-pipeline-split",
    "account-for-loss-in-pipeline-split",    "pp-partition-method"};
constexpr std::array<std::string_view, 8> kRecompute{
    "recompute-activations", "recompute-granularity",
    "recompute-method",      "recompute-num-layers",
    "recompute-modules",     "checkpoint-activations",
    "checkpoint-num-layers", "activations-checkpoint-method"};
constexpr std::array<std::string_view, 7> kSharding{"use-distributed-optimizer",
                                                    "use-megatron-fsdp",
                                                    "use-custom-fsdp",
                                                    "use-torch-fsdp2",
                                                    "torch-fsdp2-no-reshard-after-forward",
                                                    "data-parallel-sharding-strategy",
                                                    "zero-stage"};
constexpr std::array<std::string_view, 2> kAttention{"attention-backend", "use-flash-attn"};
constexpr std::array<std::string_view, 4> kSchedule{
    "enable-zero-bubble", "zero-bubble-max-pending-backward", "zero-bubble-v-schedule",
    "zero-bubble-v-schedule-mem-setup"};
constexpr std::array<std::string_view, 3> kFormat{"bf16", "fp16",
                                                  "accumulate-allreduce-grads-in-fp32"};
constexpr std::array<std::string_view, 1> kTensor{"tensor-model-parallel-size"};
constexpr std::array<std::string_view, 1> kPipeline{"pipeline-model-parallel-size"};
constexpr std::array<std::string_view, 1> kContext{"context-parallel-size"};
constexpr std::array<std::string_view, 1> kSequence{"sequence-parallel"};
constexpr std::array<std::string_view, 1> kOverlap{"overlap-grad-reduce"};
constexpr std::array<std::string_view, 1> kMicroBatch{"micro-batch-size"};
constexpr std::array<std::string_view, 1> kBatch{"global-batch-size"};
constexpr std::array<std::string_view, 1> kTokens{"seq-length"};
constexpr std::array<std::string_view, 1> kExperts{"expert-model-parallel-size"};
constexpr std::array<ArgumentGroup, 15> kDecided{
    kStages,  kRecompute, kSharding, kAttention,  kSchedule, kFormat, kTensor, kPipeline,
    kContext, kSequence,  kOverlap,  kMicroBatch, kBatch,    kTokens, kExperts};
// What a layer has that a plan's model must have too; vocabularies are padded by tensor
// parallelism.
constexpr std::array<std::string_view, 10> kModel{
    "num-layers",  "hidden-size",         "ffn-hidden-size",
    "kv-channels", "num-attention-heads", "num-query-groups",
    "num-experts", "moe-router-topk",     "position-embedding-type",
    "swiglu"};

Values values_of(const std::string& text) {
  const Arguments arguments(text, "export");
  Values values;
  // "$@" behind the last argument is an empty word of its values.
  for (const std::string& name : arguments.names())
    values[name] = std::string(trimmed(arguments.values(name)));
  return values;
}

std::optional<std::string> value_of(const Values& values, std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

Values exported(const ResolvedPlan& plan, std::vector<Remark>& remarks) {
  ExportedJob job = export_megatron(plan, {});
  // The script's own data and model stay.
  std::erase_if(job.not_carried,
                [](const Remark& r) { return r.name == "data" || r.name == "model"; });
  remarks = std::move(job.not_carried);
  return values_of(job.files.front().text);
}

ResolvedPlan resolved(const Job& job, const std::string& file) {
  auto made = make_schedule(job.plan.schedule, {job.plan.pp, job.plan.vpp, job.plan.microbatches});
  auto* schedule = std::get_if<Schedule>(&made);
  if (schedule == nullptr)
    throw InputError(file, "", fmt::format("{}: cannot be made", job.plan.schedule));
  return derive(job.plan, job.model, std::move(*schedule));
}

void require_same_model(const Values& here, const Values& wanted, const std::string& file) {
  for (const std::string_view name : kModel) {
    const auto mine = value_of(here, name), theirs = value_of(wanted, name);
    if (mine == theirs) continue;
    throw InputError(file, fmt::format("--{}", name),
                     fmt::format("{} here, {} in the plan's model", mine.value_or("not given"),
                                 theirs.value_or("not given")));
  }
}

// One word to a shell, whatever is in it.
std::string shell_word(const std::string& word) {
  const bool plain = word.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_-+=.,:/@%") == std::string::npos;
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// The script's arguments once changed, as a file of them.
std::string changed_text(Values values, const std::vector<ArgumentChange>& changes) {
  for (const ArgumentChange& change : changes) {
    if (change.after) {
      values[change.name] = *change.after;
    } else {
      values.erase(change.name);
    }
  }
  std::string text;
  for (const auto& [name, value] : values) {
    text += "--" + name;
    std::istringstream words(value);
    for (std::string word; words >> word;) text += " " + shell_word(word);
    text += "\n";
  }
  return text;
}

// Those of torchrun, Slurm and DeepSpeed's launcher: how processes are started, and where.
Values without_launcher(Values values) {
  for (const char* name :
       {"nproc-per-node", "nnodes",       "node-rank",       "master-addr", "master-port",
        "rdzv-id",        "rdzv-backend", "rdzv-endpoint",   "num-gpus",    "num-nodes",
        "gpus-per-node",  "nodes",        "ntasks-per-node", "ntasks",      "hostfile",
        "nodelist",       "partition",    "account",         "time",        "job-name",
        "output",         "error"})
    values.erase(name);
  return values;
}

// Which of the plan's words the changed script reads back otherwise.
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
  compare("microbatches", a.microbatches, b.microbatches);
  compare("micro_batch_size", a.micro_batch_size, b.micro_batch_size);
  compare("seq_length", a.seq_length, b.seq_length);
  compare("dtype", a.dtype, b.dtype);
  compare("attention", a.attention, b.attention);
  compare("sequence_parallel", a.sequence_parallel, b.sequence_parallel);
  compare("zero", a.zero, b.zero);
  compare("overlap_grad_reduce", a.overlap_grad_reduce, b.overlap_grad_reduce);
  compare("boundaries", a.boundaries, b.boundaries);
  compare("schedule", a.schedule, b.schedule);
  compare("allow_reordered", a.allow_reordered, b.allow_reordered);
  compare("recompute", a.recompute, b.recompute);
  return names;
}

}  // namespace

Patch patch_megatron(const ResolvedPlan& wanted, const std::string& script, const std::string& file,
                     const JobOptions& options) {
  const Job job = read_megatron_job(script, file, options);
  Values given;
  for (const JobArgument& argument : job.arguments)
    given[argument.name] = std::string(trimmed(argument.value));
  Patch patch;
  std::vector<Remark> ignored;
  const Values here = exported(resolved(job, file), ignored);
  const Values there = exported(wanted, patch.remarks);
  require_same_model(here, there, file);

  for (const ArgumentGroup group : kDecided) {
    const bool same = std::ranges::all_of(group, [&](std::string_view name) {
      return value_of(here, name) == value_of(there, name);
    });
    if (same) continue;
    for (const std::string_view name : group) {
      const auto before = value_of(given, name), after = value_of(there, name);
      if (before != after) patch.changes.push_back({std::string(name), before, after});
    }
  }
  std::ranges::sort(patch.changes, {}, &ArgumentChange::name);

  patch.arguments = changed_text(without_launcher(given), patch.changes);
  patch.devices = wanted.plan.devices();
  const bool supposed = std::ranges::any_of(
      job.remarks, [](const Remark& r) { return r.name == "data parallelism"; });
  if (!supposed) patch.devices_before = job.plan.devices();
  JobOptions changed = options;
  changed.gpus = patch.devices;
  changed.dp.reset();
  const Job again = read_megatron_job(changed_text(given, patch.changes), file, changed);
  for (const std::string_view name : differences(again.plan, wanted.plan)) {
    const bool said = std::ranges::any_of(
        patch.remarks, [&](const Remark& r) { return r.name.starts_with(name); });
    if (!said)
      patch.remarks.push_back({std::string(name), "the changed script runs another than the plan"});
  }
  return patch;
}

ExportedJob patched_megatron(const Patch& patch, const Plan& plan, const ExportOptions& options) {
  std::string lines;
  std::istringstream arguments(patch.arguments);
  for (std::string line; std::getline(arguments, line);) lines += " \\\n  " + line;
  return {.files = {{"megatron.sh", megatron_script(nodes_of(plan, options), lines)}},
          .launch = "sh megatron.sh",
          .not_carried = patch.remarks};
}

}  // namespace weir
