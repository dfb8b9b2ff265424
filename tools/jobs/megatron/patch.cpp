// Both plans, the script's and the wanted one, go through the same exporter: where its words
// differ, or the script's own from what the plan needs, the script changes. The changed arguments
// are read again, and what is not the wanted plan then is said.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/patch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
#include "tools/jobs/megatron/recipe.hpp"
#include "tools/jobs/megatron/script_edit.hpp"
#include "tools/jobs/shell/unified_diff.hpp"
#include "tools/jobs/trainers/tables.hpp"

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
constexpr std::array<std::string_view, 8> kSharding{"use-distributed-optimizer",
                                                    "ckpt-format",
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
constexpr std::array<std::string_view, 2> kReduction{"overlap-grad-reduce", "overlap-param-gather"};
constexpr std::array<std::string_view, 1> kGroups{
    "microbatch-group-size-per-virtual-pipeline-stage"};
constexpr std::string_view kUnchecked = "no-check-for-nan-in-loss-and-grad";
constexpr std::array<std::string_view, 6> kGraphs{"cuda-graph-impl",     "cuda-graph-modules",
                                                  "cuda-graph-scope",    "enable-cuda-graph",
                                                  "external-cuda-graph", kUnchecked};
constexpr std::array<std::string_view, 1> kRankOrder{"use-tp-pp-dp-mapping"};
constexpr std::array<std::string_view, 1> kMicroBatch{"micro-batch-size"};
constexpr std::array<std::string_view, 1> kBatch{"global-batch-size"};
constexpr std::array<std::string_view, 1> kTokens{"seq-length"};
constexpr std::array<std::string_view, 3> kExperts{"expert-model-parallel-size",
                                                   "expert-tensor-parallel-size",
                                                   "overlap-moe-expert-parallel-comm"};
constexpr std::array<std::string_view, 5> kOffload{"fine-grained-activation-offloading",
                                                   "offload-modules", "activation-offload-fraction",
                                                   "cpu-offloading", "cpu-offloading-num-layers"};
constexpr std::array<std::string_view, 1> kOffloadsInFlight{
    "fine-grained-offloading-max-inflight-offloads"};
constexpr std::array<ArgumentGroup, 20> kRun{
    kStages,   kRecompute, kSharding, kAttention, kSchedule,  kFormat,          kTensor,
    kPipeline, kContext,   kSequence, kReduction, kRankOrder, kMicroBatch,      kBatch,
    kTokens,   kExperts,   kGroups,   kGraphs,    kOffload,   kOffloadsInFlight};
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

Values exported(const ResolvedPlan& plan, const Allowed& allowed, std::vector<Remark>& remarks) {
  MegatronArguments arguments;
  add_megatron_run(plan, allowed, arguments, remarks);
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
    lines.push_back(fmt::format("--{}{}", change.name, argument_words(change.name, *change.after)));
  }
  std::ranges::sort(lines);
  return lines;
}

// How much of a job a plan changes.
enum class PatchScope : std::uint8_t {
  run,      // degrees, stages, batch, schedule, re-materialisation and what devices share
  training  // the optimizer, the rate's course and the seed too
};

// A job, what it starts, and the plan that it shall be.
class Changes {
 public:
  Changes(const Job& job, const ResolvedPlan& wanted, const Allowed& allowed)
      : wanted_(wanted), allowed_(allowed) {
    for (const JobArgument& argument : job.arguments)
      given_[argument.name] = std::string(trimmed(argument.value));
  }

  std::vector<ArgumentChange> made(const ResolvedPlan& job, PatchScope scope,
                                   std::vector<Remark>& remarks) {
    std::vector<Remark> ignored;
    here_ = exported(job, allowed_, ignored);
    there_ = exported(wanted_, allowed_, remarks);
    std::vector<ArgumentGroup> groups(kRun.begin(), kRun.end());
    if (scope == PatchScope::training) {
      groups.emplace_back(kRate);
      for (const std::string_view& name : kAlone) groups.emplace_back(&name, 1);
    }
    for (const ArgumentGroup group : groups) change_group(group);
    keep_overlap(scope, remarks);
    change_idle_flags();
    remove_lonely(facts_of(job), remarks);
    std::ranges::sort(changes_, {}, &ArgumentChange::name);
    return std::move(changes_);
  }

 private:
  void change_group(ArgumentGroup group) {
    const bool same = std::ranges::all_of(group, [&](std::string_view name) {
      return value_of(here_, name) == value_of(there_, name);
    });
    if (same) return;
    for (const std::string_view name : group) change(name, value_of(there_, name));
  }
  void change(std::string_view name, const std::optional<std::string>& after) {
    const auto before = value_of(given_, name);
    // The script's own format of checkpoints stays where it is not FSDP's alone.
    if (name == "ckpt-format" && !after && before != "fsdp_dtensor") return;
    if (name == kUnchecked && !after) return;  // graphs of whole steps need it, others may have it
    if (before != after) changes_.push_back({std::string(name), before, after});
  }
  // Traffic beside the passes costs nothing where it may stay behind them.
  void keep_overlap(PatchScope scope, std::vector<Remark>& remarks) {
    if (scope == PatchScope::training) return;
    std::erase_if(changes_, [](const ArgumentChange& c) {
      return !c.after && std::ranges::find(kReduction, c.name) != kReduction.end();
    });
    const Plan& plan = wanted_.plan;
    if (plan.replicas() == 1) return;
    if (stays("overlap-grad-reduce") && !plan.overlap_grad_reduce) {
      remarks.push_back({"overlap_grad_reduce",
                         "the script's --overlap-grad-reduce stays: gradients are reduced beside "
                         "the backward, which the plan waits for"});
    }
    if (stays("overlap-param-gather") && !plan.overlap_param_gather && plan.zero == 1) {
      remarks.push_back({"overlap_param_gather",
                         "the script's --overlap-param-gather stays: weights are gathered beside "
                         "the forward, which the plan waits for"});
    }
  }
  // A flag that Megatron ignores today and would heed in the changed job.
  void change_idle_flags() {
    const Plan& plan = wanted_.plan;
    if (plan.tp > 1 && !plan.sequence_parallel) remove("sequence-parallel");
    if (plan.replicas() > 1 && plan.zero == 0) remove("use-distributed-optimizer");
    if (plan.dp > 1 && plan.rank_order == RankOrder::tp_cp_dp_pp) remove("use-tp-pp-dp-mapping");
  }
  bool remove(std::string_view name) {
    if (!stays(name)) return false;
    std::erase_if(changes_, [&](const ArgumentChange& c) { return c.name == name; });
    if (given_.contains(name))
      changes_.push_back({std::string(name), given_[std::string(name)], {}});
    return true;
  }
  bool stays(std::string_view name) const {
    const auto changed = std::ranges::find(changes_, name, &ArgumentChange::name);
    if (changed != changes_.end()) return changed->after.has_value();
    return given_.contains(name);
  }
  // What Megatron takes only together goes together, until nothing is alone. What was alone in the
  // script is the user's.
  void remove_lonely(const TrainerFacts& before, std::vector<Remark>& remarks) {
    const TrainerFacts facts = facts_of(wanted_);
    const auto had = [&](std::string_view name) { return given_.contains(name); };
    for (bool again = true; again;) {
      again = false;
      for (const ArgumentRule& rule : megatron_argument_rules()) {
        const bool were = rule.needs.empty() || std::ranges::any_of(rule.needs, had);
        if (!were || !rule.also(before)) continue;
        const bool together =
            rule.needs.empty() ||
            std::ranges::any_of(rule.needs, [&](std::string_view name) { return stays(name); });
        if ((together && rule.also(facts)) || !remove(rule.argument)) continue;
        remarks.push_back({std::string(rule.argument), fmt::format("goes: it {}", rule.why)});
        again = true;
      }
    }
  }

  const ResolvedPlan& wanted_;
  Allowed allowed_;
  Values given_, here_, there_;
  std::vector<ArgumentChange> changes_;
};

// Whether the script's Megatron is a fork that runs the plan's order: the script says it.
bool has_own_order(const Plan& script, const Plan& wanted) {
  const bool usual = script.schedule == "1f1b" || script.schedule == "interleaved-1f1b";
  return !usual && script.schedule == wanted.schedule && wanted.vpp == script.vpp;
}

Patch patch_of(const Job& job, const ResolvedPlan& wanted, const PatchedScript& script,
               PatchScope scope) {
  Patch patch;
  patch.changes =
      Changes(job, wanted, script.allowed).made(resolved(job, script.file), scope, patch.remarks);
  patch.lines = changed_lines(job.lines, patch.changes);
  patch.devices = wanted.plan.devices();
  const bool supposed = std::ranges::any_of(
      job.remarks, [](const Remark& r) { return r.name == "data parallelism"; });
  if (!supposed) patch.devices_before = job.plan.devices();
  JobOptions changed = script.options;
  changed.gpus = patch.devices;
  changed.dp.reset();
  changed.kept = true;
  const Job again = read_megatron_job(job_text(patch.lines), script.file, changed);
  // An order that the script asks for by its own flags stays with them.
  if (has_own_order(job.plan, wanted.plan))
    std::erase_if(patch.remarks, [](const Remark& r) { return r.name == "schedule"; });
  remark_differences(again.plan, wanted.plan, patch.remarks);
  // Behind that: what the trainer may not run says nothing of whether the job is the plan's.
  add_untried(wanted, megatron_of(script.allowed), patch.remarks);
  return patch;
}

}  // namespace

Patch patch_megatron(const ResolvedPlan& wanted, const PatchedScript& script) {
  JobOptions named = script.options;
  named.model = &wanted.model;  // which a tool that trains ready models only names
  if (is_translated_job(script.text, script.file, named)) {
    throw InputError(script.file, "",
                     "is a job in another tool's words, or a list that Megatron printed: --patch "
                     "edits scripts with Megatron's own arguments");
  }
  const Job job = read_megatron_job(script.text, script.file, script.options);
  Allowed allowed = script.allowed;
  allowed.other_schedule = allowed.other_schedule || has_own_order(job.plan, wanted.plan);
  require_trainer_runs(megatron_of(allowed), wanted, allowed);
  // A plan whose model has no blocks has no arguments, whatever the script's sizes are.
  std::vector<Remark> ignored;
  static_cast<void>(stage_blocks(wanted, ignored));
  if (const auto other = other_size(job.model, wanted.model)) {
    throw InputError(script.file, fmt::format("--{}", other->argument),
                     fmt::format("{} here, {} in the plan's model", other->here, other->wanted));
  }
  Patch patch = patch_of(job, wanted, script, PatchScope::run);
  EditedScript edited =
      edited_script(script, patch.changes, {patch.devices_before, patch.devices}, facts_of(wanted));
  patch.text = std::move(edited.text);
  patch.not_edited = std::move(edited.not_edited);
  patch.difference = unified_diff(script.text, patch.text, script.file);
  return patch;
}

std::optional<Patch> patch_own_megatron_job(const ResolvedPlan& plan, const Allowed& allowed) {
  const std::optional<Job> job = own_job(plan, "megatron", &read_megatron_job);
  if (!job || other_size(job->model, plan.model)) return std::nullopt;
  require_trainer_runs(megatron_of(allowed), plan, allowed);
  return patch_of(*job, plan, {.file = kOwnJob, .allowed = allowed}, PatchScope::training);
}

namespace {

// Whether a line's value is made by a command of the script's, "$(date)": as text it is another
// one.
bool is_made_by_a_command(const std::string& line) {
  return line.find("$(") != line.npos || line.find('`') != line.npos;
}

// Words that the script of the job had from elsewhere: shells fill them in again.
std::string open_again(const std::string& line, std::vector<std::string>& open) {
  const std::size_t quote = line.find(" '");
  if (quote == line.npos || line.back() != '\'' || line.find('$') == line.npos) return line;
  const std::string value = line.substr(quote + 2, line.size() - quote - 3);
  if (value.find_first_of("'\"`\\") != value.npos || value.find("$(") != value.npos) return line;
  open.push_back(fmt::format("{} {}", line.substr(0, quote), value));
  return fmt::format("{} \"{}\"", line.substr(0, quote), value);
}

}  // namespace

ExportedJob patched_megatron(const Patch& patch, const ResolvedPlan& plan,
                             const ExportOptions& options) {
  std::string lines;
  std::vector<std::string> open;
  std::vector<std::string> made;
  for (const std::string& line : patch.lines) {
    if (is_made_by_a_command(line)) {
      made.push_back(line);
    } else {
      lines += " \\\n  " + open_again(line, open);
    }
  }
  ExportedJob job{.files = {{"megatron.sh", megatron_script(nodes_of(plan.plan, options),
                                                            megatron_environment(plan), lines)}},
                  .launch = "sh megatron.sh",
                  .not_carried = patch.remarks,
                  .whole_job = true};
  if (!made.empty()) {
    job.not_carried.push_back(
        {"job", fmt::format("left out, for commands of the script make their values: {}",
                            fmt::join(made, ", "))});
  }
  if (!open.empty()) {
    job.not_carried.push_back(
        {"job", fmt::format("taken from the script's surroundings, which are to be given here "
                            "too: {}",
                            fmt::join(open, ", "))});
  }
  return job;
}

ExportedJob edited_megatron(const Patch& patch, const std::string& name) {
  // A recipe is put on a command line by Megatron's runner of tests, and starts nothing itself.
  const bool starts = !megatron_recipe_arguments(patch.text);
  ExportedJob job{.files = {{name, patch.text}},
                  .launch = starts ? fmt::format("bash {}", shell_quoted(name)) : "",
                  .not_carried = patch.remarks,
                  .whole_job = true};
  for (const Remark& remark : patch.not_edited) job.not_carried.push_back(remark);
  return job;
}

}  // namespace weir
