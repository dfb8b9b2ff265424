// What a Megatron job's script says besides the model and the plan: which program it starts, on how
// many devices, and what becomes of each of its arguments.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "plan/job/optimizer.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir {
namespace {

struct OtherModel {
  std::string_view name;  // part of a program's name, or an argument
  std::string_view what;
};
constexpr std::array<OtherModel, 10> kPrograms{{{"t5", "an encoder with a decoder"},
                                                {"bert", "an encoder with BERT's heads"},
                                                {"mamba", "Mamba's blocks"},
                                                {"hybrid", "Mamba's blocks"},
                                                {"retro", "a retriever"},
                                                {"vision", "a vision model"},
                                                {"vlm", "a vision-language model"},
                                                {"ict", "a retriever"},
                                                {"realm", "a retriever"},
                                                {"multimodal", "a vision-language model"}}};
// Of programs that pretrain nothing.
constexpr std::array<std::string_view, 9> kOtherWork{
    "text_generation", "generate", "inference",  "eval",  "analyze",
    "prompt",          "convert",  "preprocess", "server"};
constexpr std::array<OtherModel, 13> kArguments{
    {{"task", "fine-tuning on a task, with a head of its own"},
     {"language-model-type", "a vision-language model"},
     {"classes-fraction", "a vision model"},
     {"retro-add-retriever", "a retriever"},
     {"hybrid-override-pattern", "Mamba's blocks"},
     {"hybrid-layer-pattern", "Mamba's blocks"},
     {"is-hybrid-model", "Mamba's blocks"},
     {"heterogeneous-layers-config-path", "blocks that differ from each other"},
     {"experimental-attention-variant", "another attention"},
     {"perform-rl-step", "reinforcement learning, whose rollouts are no training step"},
     {"grpo-prompts-per-step", "reinforcement learning, whose rollouts are no training step"},
     {"encoder-num-layers", "an encoder with a decoder"},
     {"decoder-num-layers", "an encoder with a decoder"}}};

// A whole number of devices or nodes; 0 where the text is none.
std::int64_t count_in(const std::string& text) {
  const bool digits =
      !text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? std::stoll(text) : 0;
}

std::int64_t first_count(Arguments& a, std::initializer_list<std::string_view> names) {
  std::int64_t found = 0;
  for (const std::string_view name : names) {
    const std::string values = a.flag(name) ? a.values(name) : "";
    const std::int64_t count = count_in(values.substr(0, values.find(' ')));
    if (found == 0) found = count;
  }
  return found;
}

}  // namespace

std::optional<std::int64_t> megatron_devices(Arguments& a) {
  const bool says_nodes = a.flag("nnodes") || a.flag("num-nodes");
  std::int64_t nodes = first_count(a, {"nnodes", "num-nodes"});
  const std::int64_t srun_nodes = first_count(a, {"nodes"});
  if (nodes == 0 && srun_nodes > 0) nodes = srun_nodes;
  const bool unsaid = nodes == 0;
  if (unsaid) nodes = a.slurm_nodes().value_or(says_nodes ? 0 : 1);
  // slime's actor, whose processes Ray starts.
  const std::int64_t actors = first_count(a, {"actor-num-nodes"});
  const std::int64_t of_actor = first_count(a, {"actor-num-gpus-per-node"});
  if (actors > 0 && of_actor > 0) return actors * of_actor;
  const std::int64_t launched = first_count(a, {"nproc-per-node", "num-gpus"});
  // Without a launcher of processes, Slurm starts them.
  const std::int64_t of_srun = first_count(a, {"gpus-per-node", "ntasks-per-node"});
  if (launched > 0 && nodes > 0) return launched * nodes;
  if (launched > 0) {
    // mpirun or srun starts a launcher on each node, whose number is said nowhere else.
    return a.processes() ? std::optional(launched * *a.processes()) : std::nullopt;
  }
  if (a.slurm_devices()) return a.slurm_devices();
  if (a.processes()) return a.processes();
  if (of_srun > 0 && !unsaid) return of_srun * nodes;
  return std::nullopt;
}

void refuse_other_models(Arguments& a, const std::string& file) {
  for (const OtherModel& other : kPrograms) {
    if (a.program().starts_with("pretrain_") && a.program().find(other.name) != std::string::npos) {
      throw InputError(file, a.program(),
                       fmt::format("trains {}, which is not read from Megatron's jobs: "
                                   "pretrain_gpt.py's are",
                                   other.what));
    }
  }
  if (!a.program().starts_with("pretrain") && !a.program().starts_with("train")) {
    for (const std::string_view work : kOtherWork) {
      if (a.program().find(work) != std::string::npos) {
        throw InputError(file, a.program(),
                         "trains nothing: the scripts that start pretrain_gpt.py are read");
      }
    }
  }
  if (const auto config = a.text("yaml-cfg")) {
    a.fail("yaml-cfg", fmt::format("the job's sizes are in {}, which is not read: give them as "
                                   "arguments",
                                   *config));
  }
  if (a.values("spec").find("mamba") != std::string::npos)
    a.fail("spec", "not modelled: Mamba blocks");
  for (const OtherModel& other : kArguments) {
    if (a.flag(other.name)) a.fail(other.name, fmt::format("not modelled: {}", other.what));
  }
}

namespace {

// Settings of optimizers that are not the job's, as files that list every default have them. Muon
// updates vectors by Adam.
bool is_of_another_optimizer(std::string_view name, OptimizerKind kind) {
  const bool muon = kind == OptimizerKind::muon, sgd = kind == OptimizerKind::sgd;
  return (name.starts_with("muon-") && !muon) || (name == "sgd-momentum" && !sgd) ||
         (name.starts_with("adam-") && sgd);
}

}  // namespace

void account_for(Arguments& a, Job& job) {
  const std::vector<std::string> unread = a.unread();  // sorted
  std::set<std::string, std::less<>> remarked;
  for (const Remark& remark : job.remarks) remarked.insert(remark.name);
  for (const std::string& name : a.names()) {
    JobArgument argument{name, a.values(name), Fate::carried, a.of_launcher(name)};
    const bool nobody = std::ranges::binary_search(unread, name);
    if (nobody && is_of_another_optimizer(name, job.plan.optimizer.kind)) {
      argument.fate = Fate::no_effect;
    } else if (nobody) {
      const bool beside = argument.launcher || says_default(name, argument.value);
      const UnreadArgument means = beside ? UnreadArgument{} : unread_argument(name);
      argument.fate = means.fate;
      if (!means.why.empty()) job.remarks.push_back({name, std::string(means.why)});
    } else if (remarked.contains(name)) {
      argument.fate = Fate::changed;
    }
    job.arguments.push_back(std::move(argument));
  }
  for (const std::string& name : a.ambiguous()) {
    job.remarks.push_back(
        {name, fmt::format("given more than once: {} taken, the last", a.values(name))});
  }
  add_script_remarks(a.remarks(), job);
}

void add_script_remarks(const std::vector<ShellRemark>& remarks, Job& job) {
  for (const ShellRemark& remark : remarks) {
    const std::string where = remark.line > 0 ? fmt::format("line {}", remark.line) : "script";
    job.remarks.push_back({where, remark.text});
  }
}

}  // namespace weir
