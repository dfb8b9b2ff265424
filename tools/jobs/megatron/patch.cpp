// Both plans, the script's and the wanted one, go through the same exporter: where its words
// differ, the script changes. The changed arguments are read again, and what is not the wanted plan
// then is said.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/patch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "plan/text/cells.hpp"
#include "plan/text/quote.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/megatron/export.hpp"
#include "tools/jobs/megatron/import.hpp"

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
constexpr std::array<std::string_view, 2> kSequence{"sequence-parallel", "tp-comm-overlap"};
constexpr std::array<std::string_view, 2> kOverlap{"overlap-grad-reduce", "overlap-param-gather"};
constexpr std::array<std::string_view, 1> kRankOrder{"use-tp-pp-dp-mapping"};
constexpr std::array<std::string_view, 1> kMicroBatch{"micro-batch-size"};
constexpr std::array<std::string_view, 1> kBatch{"global-batch-size"};
constexpr std::array<std::string_view, 1> kTokens{"seq-length"};
constexpr std::array<std::string_view, 2> kExperts{"expert-model-parallel-size",
                                                   "expert-tensor-parallel-size"};
constexpr std::array<ArgumentGroup, 16> kRun{
    kStages,  kRecompute, kSharding, kAttention, kSchedule,   kFormat, kTensor, kPipeline,
    kContext, kSequence,  kOverlap,  kRankOrder, kMicroBatch, kBatch,  kTokens, kExperts};
constexpr std::array<std::string_view, 11> kRate{"lr-decay-style",
                                                 "lr-warmup-iters",
                                                 "lr-warmup-samples",
                                                 "lr-warmup-fraction",
                                                 "lr-decay-iters",
                                                 "lr-decay-samples",
                                                 "min-lr",
                                                 "lr-warmup-init",
                                                 "lr-wsd-decay-style",
                                                 "lr-wsd-decay-iters",
                                                 "lr-wsd-decay-samples"};
constexpr std::array<std::string_view, 9> kAlone{"lr",         "weight-decay", "clip-grad",
                                                 "seed",       "optimizer",    "adam-eps",
                                                 "adam-beta1", "sgd-momentum", "adam-beta2"};

std::optional<std::string> value_of(const Values& values, std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

Values exported(const ResolvedPlan& plan, std::vector<Remark>& remarks) {
  MegatronArguments arguments;
  add_megatron_run(plan, arguments, remarks);
  Values values;
  for (const auto& [name, value] : arguments.all()) values[name] = value;
  return values;
}

std::string block_size(const TransformerShape& b, std::string_view argument) {
  const auto given = [](bool flag) { return std::string(flag ? "given" : "not given"); };
  if (argument == "hidden-size") return fmt::to_string(b.hidden);
  if (argument == "ffn-hidden-size") return fmt::to_string(b.ffn);
  if (argument == "kv-channels") return fmt::to_string(b.head_dim);
  if (argument == "num-attention-heads") return fmt::to_string(b.heads);
  if (argument == "num-query-groups") return fmt::to_string(b.kv_heads);
  if (argument == "num-experts") return fmt::to_string(b.experts);
  if (argument == "moe-router-topk") return fmt::to_string(b.experts_per_token);
  if (argument == "kv-lora-rank") return fmt::to_string(b.latent.key_value);
  if (argument == "swiglu") return given(b.gated);
  return b.rotary ? "rope" : "not rope";
}

// The first size in which two models differ; vocabularies are padded by tensor parallelism, and no
// matter here.
struct OtherSize {
  std::string_view argument;
  std::string here, wanted;
};
std::optional<OtherSize> other_size(const Model& here, const Model& wanted) {
  constexpr std::array<std::string_view, 10> kSizes{"hidden-size",      "ffn-hidden-size",
                                                    "kv-channels",      "num-attention-heads",
                                                    "num-query-groups", "num-experts",
                                                    "moe-router-topk",  "kv-lora-rank",
                                                    "swiglu",           "position-embedding-type"};
  constexpr std::size_t kOthers = 3;  // embedding, norm and head
  if (here.layers.size() != wanted.layers.size())
    return OtherSize{"num-layers", fmt::to_string(here.layers.size() - kOthers),
                     fmt::to_string(wanted.layers.size() - kOthers)};
  for (std::size_t i = 0; i < here.layers.size(); ++i) {
    const auto* mine = std::get_if<TransformerShape>(&here.layers[i].shape);
    const auto* theirs = std::get_if<TransformerShape>(&wanted.layers[i].shape);
    if (mine == nullptr || theirs == nullptr) continue;
    for (const std::string_view name : kSizes) {
      OtherSize size{name, block_size(*mine, name), block_size(*theirs, name)};
      if (size.here != size.wanted) return size;
    }
  }
  return std::nullopt;
}

std::string name_of(const std::string& line) {
  std::string name = line.substr(2, line.find(' ') - 2);
  std::ranges::replace(name, '_', '-');
  return name;
}

std::vector<std::string> changed_lines(std::vector<std::string> lines,
                                       const std::vector<ArgumentChange>& changes) {
  for (const ArgumentChange& change : changes) {
    std::erase_if(lines, [&](const std::string& line) { return name_of(line) == change.name; });
    if (!change.after) continue;
    const bool flag = change.after->empty();
    lines.push_back(fmt::format("--{}{}", change.name,
                                flag ? std::string() : " " + shell_quoted(*change.after)));
  }
  std::ranges::sort(lines);
  return lines;
}

// How much of a job a plan changes.
enum class PatchScope : std::uint8_t {
  run,      // degrees, stages, batch, schedule, re-materialisation and what devices share
  training  // the optimizer, the rate's course and the seed too
};

Patch patch_of(const Job& job, const ResolvedPlan& wanted, const std::string& file,
               const JobOptions& options, PatchScope scope) {
  Values given;
  for (const JobArgument& argument : job.arguments)
    given[argument.name] = std::string(trimmed(argument.value));
  Patch patch;
  std::vector<Remark> ignored;
  const Values here = exported(resolved(job, file), ignored);
  const Values there = exported(wanted, patch.remarks);
  std::vector<ArgumentGroup> groups(kRun.begin(), kRun.end());
  if (scope == PatchScope::training) {
    groups.emplace_back(kRate);
    for (const std::string_view& name : kAlone) groups.emplace_back(&name, 1);
  }
  for (const ArgumentGroup group : groups) {
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

  patch.lines = changed_lines(job.lines, patch.changes);
  patch.devices = wanted.plan.devices();
  const bool supposed = std::ranges::any_of(
      job.remarks, [](const Remark& r) { return r.name == "data parallelism"; });
  if (!supposed) patch.devices_before = job.plan.devices();
  JobOptions changed = options;
  changed.gpus = patch.devices;
  changed.dp.reset();
  const Job again = read_megatron_job(job_text(patch.lines), file, changed);
  remark_differences(again.plan, wanted.plan, patch.remarks);
  return patch;
}

}  // namespace

Patch patch_megatron(const ResolvedPlan& wanted, const std::string& script, const std::string& file,
                     const JobOptions& options) {
  const Job job = read_megatron_job(script, file, options);
  // A plan whose model has no blocks has no arguments, whatever the script's sizes are.
  std::vector<Remark> ignored;
  static_cast<void>(stage_blocks(wanted, ignored));
  if (const auto other = other_size(job.model, wanted.model)) {
    throw InputError(file, fmt::format("--{}", other->argument),
                     fmt::format("{} here, {} in the plan's model", other->here, other->wanted));
  }
  return patch_of(job, wanted, file, options, PatchScope::run);
}

std::optional<Patch> patch_own_megatron_job(const ResolvedPlan& plan) {
  const std::optional<Job> job = own_job(plan, "megatron", &read_megatron_job);
  if (!job || other_size(job->model, plan.model)) return std::nullopt;
  return patch_of(*job, plan, kOwnJob, {}, PatchScope::training);
}

ExportedJob patched_megatron(const Patch& patch, const Plan& plan, const ExportOptions& options) {
  std::string lines;
  for (const std::string& line : patch.lines) lines += " \\\n  " + line;
  return {.files = {{"megatron.sh", megatron_script(nodes_of(plan, options), lines)}},
          .launch = "sh megatron.sh",
          .not_carried = patch.remarks,
          .whole_job = true};
}

}  // namespace weir
