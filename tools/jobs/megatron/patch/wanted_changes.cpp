// Both plans, the job's and the wanted one, go through the same exporter: where its words differ,
// or the job's own from what the plan needs, the job changes.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/patch/wanted_changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "plan/text/cells.hpp"
#include "tools/jobs/megatron/export/export.hpp"
#include "tools/jobs/megatron/patch/argument_groups.hpp"
#include "tools/jobs/trainers/tables.hpp"

namespace weir {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

std::optional<std::string> value_of(const Values& values, std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

Values exported(const ResolvedPlan& plan, const Allowed& allowed, std::vector<Remark>& remarks) {
  MegatronArguments arguments;
  add_megatron_run(plan, allowed, arguments, remarks);
  Values values;
  for (const auto& [name, value] : arguments.all()) values[name] = value;
  // Rows that are written where the files are ours have it for all experts; a script's own stays
  // where the plan leaves it to its software.
  if (plan.plan.expert_dispatch != ExpertDispatch::by_stack && plan.plan.ep > 1)
    values[std::string(kDispatcher)] = megatron_dispatcher(plan.plan.expert_dispatch);
  return values;
}

// A job, what it starts, and the plan that it shall be.
class Changes {
 public:
  explicit Changes(const PatchedJob& patched)
      : is_(patched.is),
        wanted_(patched.wanted),
        scope_(patched.scope),
        allowed_(patched.allowed),
        rows_(patched.job.rows.name.empty() ? std::nullopt : std::optional(patched.job.rows.rows)),
        dynamic_cp_(patched.job.rows.dynamic_cp) {
    for (const JobArgument& argument : patched.job.arguments)
      given_[argument.name] = std::string(trimmed(argument.value));
  }

  std::vector<ArgumentChange> made(std::vector<Remark>& remarks) {
    std::vector<Remark> ignored;
    here_ = exported(is_, allowed_, ignored);
    there_ = exported(wanted_, allowed_, remarks);
    for (const ArgumentGroup group : run_arguments()) change_group(group);
    if (scope_ == PatchScope::training) {
      for (const ArgumentGroup group : training_arguments()) change_group(group);
    } else if (concerns_muon()) {
      change_group(muon_arguments());
    }
    drop_precision(remarks);
    remark_rows(remarks);
    keep_overlap(remarks);
    change_idle_flags();
    remove_lonely(facts_of(is_), remarks);
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
    if (stays_alone(name) && !after) return;
    if (before != after) changes_.push_back({std::string(name), before, after});
  }
  // Traffic beside the passes costs nothing where it may stay behind them.
  void keep_overlap(std::vector<Remark>& remarks) {
    if (scope_ == PatchScope::training) return;
    const ArgumentGroup reduction = reduction_arguments();
    std::erase_if(changes_, [&](const ArgumentChange& c) {
      return !c.after && std::ranges::find(reduction, c.name) != reduction.end();
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
  // Megatron asserts adam of it (core/optimizer/optimizer_config.py).
  void drop_precision(std::vector<Remark>& remarks) {
    const auto optimizer = std::ranges::find(changes_, "optimizer", &ArgumentChange::name);
    if (optimizer == changes_.end() || !optimizer->after || *optimizer->after == "adam") return;
    const std::string name = "use-precision-aware-optimizer";
    if (remove(name)) remarks.push_back({name, "goes: it is of adam alone"});
  }
  // Rows of conversations are made of other data by another tokenizer, and documents told apart
  // train otherwise: a plan's lengths are a forecast's word, and the script's data stay as they
  // are.
  void remark_rows(std::vector<Remark>& remarks) const {
    const SequenceLengths& lengths = wanted_.plan.lengths;
    if (dynamic_cp_ != lengths.dynamic_cp) {
      remarks.push_back(
          {"lengths",
           fmt::format(
               "which devices a sequence has stays the script's, nothing is written: {}",
               lengths.dynamic_cp > 0
                   ? fmt::format("--hybrid-context-parallel, --max-seqlen-per-dp-cp-rank {} "
                                 "and --calculate-per-token-loss would follow its length",
                                 lengths.dynamic_cp)
                   : "without --hybrid-context-parallel all would have as many")});
    }
    if (!lengths.known() || rows_ == lengths.rows) return;
    const bool packed = lengths.rows == RowsOf::packed;
    remarks.push_back(
        {"lengths",
         fmt::format("rows: the script's own data decides, nothing is written: {}",
                     packed ? "--sft would need lines of JSON with messages, SFTTokenizer and "
                              "--no-create-attention-mask-in-dataloader, and no mock data"
                            : "--dataloader-inter-document-masking would tell a row's documents "
                              "apart")});
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

  // An optimizer that somebody chose, where matrices are made orthogonal by one of the two: it is
  // another state and other work. All other optimizers stay the script's.
  bool concerns_muon() const {
    const Optimizer &here = is_.plan.optimizer, &there = wanted_.plan.optimizer;
    const bool muon = here.kind == OptimizerKind::muon || there.kind == OptimizerKind::muon;
    return muon && there != Optimizer{} && !same_muon(here, there);
  }

  const ResolvedPlan& is_;
  const ResolvedPlan& wanted_;
  PatchScope scope_;
  Allowed allowed_;
  std::optional<RowsOf> rows_;  // of the script, where it says so
  int dynamic_cp_;              // likewise
  Values given_, here_, there_;
  std::vector<ArgumentChange> changes_;
};

}  // namespace

std::vector<ArgumentChange> wanted_changes(const PatchedJob& patched,
                                           std::vector<Remark>& remarks) {
  return Changes(patched).made(remarks);
}

}  // namespace weir
