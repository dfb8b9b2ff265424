// Names and defaults are those of volcengine/verl@b178a3cd5 (verl/trainer/config/engine/
// megatron.yaml, optim/megatron.yaml, workers/megatron_workers.py).
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/verl.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/text/cells.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/job/config_table.hpp"
#include "tools/jobs/job/truth.hpp"
#include "tools/jobs/megatron/post_adapters.hpp"
#include "tools/jobs/megatron/post_arguments.hpp"

namespace weir {
namespace {

using CommandWords = std::vector<std::string>;
using Values = PostTrainerValues;

constexpr std::string_view kActor = "actor_rollout_ref.actor.";

// Hydra's "{a:1,b:{c:2}}" as YAML has it, with a blank behind the colon of each key.
std::string as_yaml(const std::string& dictionary) {
  std::string yaml;
  bool at_key = false;
  for (const char c : dictionary) {
    yaml += c;
    if (c == '{' || c == ',') at_key = true;
    if (c == ':' && at_key) {
      yaml += ' ';
      at_key = false;
    }
  }
  return yaml;
}

// A path's value; a dictionary is those of the paths in it.
void add_verl_value(const std::string& path, std::string value, const std::string& file,
                    Values& values) {
  if (!value.starts_with('{') || !value.ends_with('}')) {
    values[path] = std::move(value);
    return;
  }
  for (auto& [key, its] : values_by_path(as_yaml(value), fmt::format("{}: {}", file, path)))
    values[fmt::format("{}.{}", path, key)] = std::move(its);
}

// "path=value" and "+path=value" of a command that starts verl's trainer; of what "~path" takes
// away only the name.
std::optional<Values> verl_values(const ShellScript& script, const std::string& file) {
  std::optional<Values> found;
  for (const CommandWords& words : script.commands) {
    if (std::ranges::find(words, "verl.trainer.main_ppo") == words.end()) continue;
    found.emplace();
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      const std::size_t equals = word.find('=');
      std::string path = word.substr(0, equals);
      path.erase(0, std::min(path.find_first_not_of("+-"), path.size()));
      if (word.starts_with('~')) {
        (*found)[path] = "";
      } else if (equals != word.npos) {
        add_verl_value(path, word.substr(equals + 1), file, *found);
      } else if ((word == "--config-name" || word == "-cn") && i + 1 < words.size()) {
        (*found)["config-name"] = words[++i];
      }
    }
  }
  return found;
}

class VerlJob {
 public:
  VerlJob(const Values& values, const std::string& file) : values_(values), file_(file) {}

  std::string arguments(const JobOptions& options) {
    const std::string engine = says_megatron() ? "megatron" : text(actor("strategy"), "fsdp");
    if (engine != "megatron") {
      throw InputError(file_, actor("strategy"),
                       fmt::format("{}: of verl's jobs those that train by Megatron are read",
                                   engine.substr(0, 40)));
    }
    require_model(options, file_, "verl", text("actor_rollout_ref.model.path", ""));
    set_parallelism();
    set_batch();
    set_precision();
    set_optimizer();
    copy_the_rest("megatron.");
    set_prediction();
    add("attention-backend", "flash");
    if (has_experts(*options.model)) add("moe-token-dispatcher-type", "alltoall");
    const std::int64_t devices = number("trainer.n_gpus_per_node", 8);
    return command_line(arguments_, fmt::format("torchrun --nnodes {} --nproc-per-node {} ",
                                                number("trainer.nnodes", 1), devices));
  }

  std::optional<Adapters> adapters() {
    return verl_adapters([this](const std::string& path,
                                const std::string& otherwise) { return text(path, otherwise); },
                         file_);
  }

  // To be called behind arguments(), which knows what of the actor was asked for.
  std::vector<Remark> remarks() const {
    std::vector<Remark> all{
        {"actor",
         "the plan is its update: rollouts, the reference's and the reward's passes are no part of "
         "the step, and samples are as long as they may become"}};
    std::vector<std::string_view> others;
    for (const auto& [path, value] : values_) {
      const std::string_view plain = std::string_view(path).substr(path.starts_with('~') ? 1 : 0);
      const bool of_update =
          plain.starts_with(kActor) || plain.starts_with("actor_rollout_ref.model.");
      if (!of_update || asked_.contains(path)) continue;
      // What is taken away leaves verl's own default, whatever that then is.
      others.push_back(path.starts_with('~') ? std::string_view(path)
                                             : plain.substr(plain.find('.') + 1));
    }
    if (!others.empty())
      all.front().text += fmt::format("; not in the plan: {}", fmt::join(others, " "));
    all.insert(all.end(), waiting_.begin(), waiting_.end());
    if (auto off = remark_on_off(arguments_)) all.push_back(*std::move(off));
    return all;
  }

 private:
  static std::string actor(std::string_view rest) { return fmt::format("{}{}", kActor, rest); }
  bool says_megatron() const {
    const auto config = values_.find("config-name");
    return (config != values_.end() && config->second.find("megatron") != std::string::npos) ||
           std::ranges::any_of(values_, [](const auto& entry) {
             return entry.first.starts_with(actor("megatron."));
           });
  }
  std::string text(const std::string& path, const std::string& otherwise) {
    asked_.insert(path);
    const auto found = values_.find(path);
    const bool open = found == values_.end() || found->second == "null";
    return open ? otherwise : found->second;
  }
  // A number that the script takes from elsewhere is none.
  std::int64_t number(const std::string& path, std::optional<std::int64_t> otherwise) {
    const std::string given = text(path, "");
    if (given.empty() && otherwise) return *otherwise;
    const auto value = whole_number<std::int64_t>(given);
    if (value && *value > 0 && *value < 1'000'000'000) return *value;
    throw InputError(file_, path,
                     given.empty()
                         ? "is missing"
                         : fmt::format("expected a number, found {}", given.substr(0, 40)));
  }
  void add(std::string name, const std::string& value) {
    std::ranges::replace(name, '_', '-');
    arguments_.try_emplace(std::move(name), value);
  }
  void copy(const std::string& name, const std::string& path) {
    std::string plain = text(actor(path), "");
    std::erase_if(plain, [](char c) { return c == '"' || c == '\''; });
    // A list, and not the rows of a layout's, which are lists in one.
    if (plain.starts_with('[') && plain.ends_with(']') && !plain.starts_with("[[")) {
      plain = plain.substr(1, plain.size() - 2);
      std::ranges::replace(plain, ',', ' ');
    }
    if (!plain.empty()) add(name, plain);
  }
  // What nobody has asked for yet of Megatron's own settings goes by its own name, for Megatron's
  // reader to judge: override_transformer_config's and override_ddp_config's too.
  void copy_the_rest(const std::string& of) {
    const std::string all = actor(of);
    for (const auto& [path, value] : values_) {
      if (!path.starts_with(all) || asked_.contains(path)) continue;
      std::string name = path.substr(path.rfind('.') + 1);
      if (name == "grad_reduce_in_fp32") name = "accumulate_allreduce_grads_in_fp32";
      copy(name, path.substr(kActor.size()));
    }
  }
  // Fields of Megatron-Core's OptimizerConfig, of which those that override stand before the others
  // (utils/megatron/optimizer.py, init_megatron_optim_config).
  void set_optimizer() {
    const std::string overrides = "optim.override_optimizer_config.";
    copy_the_rest(overrides);
    for (const char* field : {"optimizer", "lr", "weight_decay", "clip_grad"})
      copy(field, fmt::format("optim.{}", field));
    constexpr std::array<std::string_view, 5> kKnown{"adam", "adamw", "sgd", "muon", "dist_muon"};
    const auto kind = arguments_.find("optimizer");
    if (kind == arguments_.end() || std::ranges::find(kKnown, kind->second) != kKnown.end()) return;
    std::string path = actor(overrides + "optimizer");
    if (!values_.contains(path)) path = actor("optim.optimizer");
    throw InputError(file_, path,
                     fmt::format("{}: expected adam, sgd or muon", kind->second.substr(0, 40)));
  }
  void set_precision() {
    const std::string path = actor("megatron.dtype"), said = text(path, "bfloat16");
    const bool half = said == "float16" || said == "fp16";
    if (!half && said != "bfloat16" && said != "bf16") {
      throw InputError(file_, path,
                       fmt::format("{}: expected bfloat16 or float16", said.substr(0, 40)));
    }
    add(half ? "fp16" : "bf16", "true");
  }
  void set_parallelism() {
    for (const char* degree :
         {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
          "expert_model_parallel_size", "expert_tensor_parallel_size"})
      copy(degree, fmt::format("megatron.{}", degree));
    copy("num-virtual-stages-per-pipeline-rank", "megatron.virtual_pipeline_model_parallel_size");
    for (const char* flag : {"sequence_parallel", "use_distributed_optimizer"})
      add(flag, text(actor(fmt::format("megatron.{}", flag)), "True"));
    for (const auto& [key, what] : {std::pair("optimizer_offload", "the optimizer's state waits"),
                                    {"param_offload", "weights and gradients wait"},
                                    {"grad_offload", "gradients wait"}}) {
      const std::string path = fmt::format("megatron.{}", key), said = text(actor(path), "");
      if (!says_true(said)) continue;
      waiting_.push_back({fmt::format("actor.{}", path),
                          fmt::format("{}: {} with the host while the actor is not trained, and "
                                      "is back on the device before its update: not in the plan",
                                      said, what)});
    }
    copy("decoder_first_pipeline_num_layers",
         "megatron.override_transformer_config.num_layers_in_first_pipeline_stage");
    copy("decoder_last_pipeline_num_layers",
         "megatron.override_transformer_config.num_layers_in_last_pipeline_stage");
  }
  // One block, as the checkpoints that verl trains so have (workers/config/model.py, MtpConfig).
  void set_prediction() {
    const std::string of = "actor_rollout_ref.model.mtp.";
    if (!says_true(text(of + "enable", "False")) || !says_true(text(of + "enable_train", "False")))
      return;
    add("mtp-num-layers", "1");
    const std::string weight = text(of + "mtp_loss_scaling_factor", "");
    if (!weight.empty()) add("mtp-loss-scaling-factor", weight);
  }
  // An update takes ppo_mini_batch_size prompts with all their answers; a sample is as long as it
  // may become, packed or not.
  void set_batch() {
    const std::int64_t length =
        number("data.max_prompt_length", 512) + number("data.max_response_length", 512);
    add("seq-length", fmt::to_string(length));
    const std::int64_t samples =
        number(actor("ppo_mini_batch_size"), 256) * number("actor_rollout_ref.rollout.n", 1);
    add("global-batch-size", fmt::to_string(samples));
    if (says_true(text(actor("use_dynamic_bsz"), "False"))) {
      // So many tokens on each device of a context-parallel group.
      const std::int64_t tokens = number(actor("ppo_max_token_len_per_gpu"), 16384) *
                                  number(actor("megatron.context_parallel_size"), 1);
      add("micro-batch-size", fmt::to_string(std::max<std::int64_t>(1, tokens / length)));
      // By slime's name for it, which Megatron's reader has a remark for.
      add("use-dynamic-batch-size", "true");
    } else {
      add("micro-batch-size", fmt::to_string(number(actor("ppo_micro_batch_size_per_gpu"), {})));
    }
  }

  const Values& values_;
  const std::string& file_;
  Values arguments_;
  std::vector<Remark> waiting_;  // what is with the host between updates alone
  std::set<std::string, std::less<>> asked_;
};

}  // namespace

bool take_verl(const ShellScript& script, const std::string& file, const JobOptions& options,
               TranslatedJob& job) {
  const std::optional<Values> values = verl_values(script, file);
  if (!values) return false;
  VerlJob verl(*values, file);
  job.arguments = verl.arguments(options);
  job.lora = verl.adapters();
  job.remarks = verl.remarks();
  return true;
}

}  // namespace weir
