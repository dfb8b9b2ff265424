// Defaults are those of modelscope/ms-swift (swift/megatron/arguments/megatron_args.py), verl
// (trainer/config/engine/megatron.yaml, workers/megatron_workers.py) and THUDM/slime
// (slime/backends/megatron_utils/arguments.py), all of 2026.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/post_trainers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/text/cells.hpp"
#include "plan/text/quote.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

using CommandWords = std::vector<std::string>;
using Values = std::map<std::string, std::string, std::less<>>;

bool is_yes(std::string_view word) { return word == "true" || word == "True"; }
bool is_no(std::string_view word) { return word == "false" || word == "False"; }

void require_model(const JobOptions& options, const std::string& file, std::string_view tool,
                   const std::string& name) {
  if (options.model != nullptr) return;
  throw InputError(file, "model",
                   fmt::format("{}: a job of {} has its sizes in the checkpoint: give its "
                               "configuration, --model CONFIG.json",
                               name.empty() ? "not named" : name.substr(0, 80), tool));
}

// A line of Megatron's: torchrun where the devices are known, and every argument.
std::string command_line(const Values& arguments, const std::string& launcher) {
  std::string line = launcher + "pretrain_gpt.py";
  for (const auto& [name, value] : arguments) {
    if (is_no(value)) continue;
    line += fmt::format(" \\\n--{}{}{}", name, is_yes(value) ? "" : " ",
                        is_yes(value) ? "" : shell_quoted(value));
  }
  return line;
}

// ---- ms-swift -----------------------------------------------------------------------------------

const CommandWords* swift_command(const ShellScript& script) {
  const CommandWords* found = nullptr;
  for (const CommandWords& words : script.commands) {
    const auto megatron = std::ranges::find(words, "megatron");
    const bool trains = megatron != words.end() && megatron + 1 != words.end() &&
                        (megatron[1] == "pt" || megatron[1] == "sft" || megatron[1] == "rlhf");
    if (trains) found = &words;
  }
  return found;
}

// "--name value ..." up to the next name; a name alone is on.
Values swift_values(const CommandWords& words) {
  Values values;
  std::string name;
  for (const std::string& word : words) {
    if (word.starts_with("--")) {
      name = word.substr(2);
      std::ranges::replace(name, '_', '-');
      values[name] = "true";
    } else if (!name.empty()) {
      std::string& value = values[name];
      value = value == "true" ? word : value + " " + word;
    }
  }
  return values;
}

std::string swift_launcher(const ShellScript& script) {
  const auto devices = script.set.find("NPROC_PER_NODE");
  if (devices == script.set.end()) return "";
  const auto nodes = script.set.find("NNODES");
  return fmt::format("torchrun --nnodes {} --nproc-per-node {} ",
                     nodes == script.set.end() ? "1" : nodes->second, devices->second);
}

std::string swift_arguments(const ShellScript& script, const CommandWords& words,
                            const std::string& file, const JobOptions& options) {
  const std::string& trains = *(std::ranges::find(words, "megatron") + 1);
  if (trains == "rlhf") {
    throw InputError(file, "megatron rlhf",
                     "preferences are trained by a second model beside the first, which is not "
                     "modelled: pt and sft are read");
  }
  Values values = swift_values(words);
  for (const char* name : {"tuner-type", "train-type"}) {
    const auto given = values.extract(name);
    if (!given || given.mapped() == "full") continue;
    throw InputError(file, fmt::format("--{}", name),
                     fmt::format("{}: adapters of ms-swift are not read, full training is",
                                 given.mapped().substr(0, 40)));
  }
  const auto model = values.extract("model");
  require_model(options, file, "ms-swift", model ? model.mapped() : "");
  if (auto length = values.extract("max-length")) values["seq-length"] = length.mapped();
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"attention-backend", "flash"},
           {"use-distributed-optimizer", "true"},
           {"recompute-granularity", "selective"},
           {"micro-batch-size", "1"},
           {"global-batch-size", "16"}})
    values.try_emplace(name, value);
  if (values["recompute-granularity"] == "none") values.erase("recompute-granularity");
  if (!values.contains("fp16")) values.try_emplace("bf16", "true");
  return command_line(values, swift_launcher(script));
}

// ---- verl ---------------------------------------------------------------------------------------

constexpr std::string_view kActor = "actor_rollout_ref.actor.";

// "path=value" and "+path=value" of a command that starts verl's trainer.
std::optional<Values> verl_values(const ShellScript& script) {
  std::optional<Values> found;
  for (const CommandWords& words : script.commands) {
    if (std::ranges::find(words, "verl.trainer.main_ppo") == words.end()) continue;
    found.emplace();
    for (const std::string& word : words) {
      const std::size_t equals = word.find('=');
      if (equals == word.npos) continue;
      std::string path = word.substr(0, equals);
      path.erase(0, std::min(path.find_first_not_of("+-"), path.size()));
      (*found)[path] = word.substr(equals + 1);
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
    for (const char* name : {"recompute_granularity", "recompute_method", "recompute_num_layers",
                             "recompute_modules", "attention_backend"})
      copy(name, fmt::format("megatron.override_transformer_config.{}", name));
    add("attention-backend", "flash");
    copy("lr", "optim.lr");
    add("bf16", "true");
    const std::int64_t devices = number("trainer.n_gpus_per_node", 8);
    return command_line(arguments_, fmt::format("torchrun --nnodes {} --nproc-per-node {} ",
                                                number("trainer.nnodes", 1), devices));
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
  std::string text(const std::string& path, std::string otherwise) const {
    const auto found = values_.find(path);
    const bool open = found == values_.end() || found->second == "null";
    return open ? std::move(otherwise) : found->second;
  }
  // A number that the script takes from elsewhere is none.
  std::int64_t number(const std::string& path, std::optional<std::int64_t> otherwise) const {
    const std::string given = text(path, "");
    if (given.empty() && otherwise) return *otherwise;
    const auto value = whole_number<std::int64_t>(given);
    if (value && *value > 0 && *value < 1'000'000'000) return *value;
    throw InputError(file_, path,
                     given.empty()
                         ? "is missing"
                         : fmt::format("expected a number, found {}", given.substr(0, 40)));
  }
  void add(std::string name, std::string value) {
    std::ranges::replace(name, '_', '-');
    arguments_.try_emplace(std::move(name), std::move(value));
  }
  void copy(const std::string& name, const std::string& path) {
    const std::string value = text(actor(path), "");
    std::string plain = value;
    std::erase_if(plain, [](char c) { return c == '[' || c == ']' || c == '"' || c == '\''; });
    std::ranges::replace(plain, ',', ' ');
    if (!plain.empty()) add(name, plain);
  }
  void set_parallelism() {
    for (const char* degree :
         {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
          "expert_model_parallel_size", "expert_tensor_parallel_size"})
      copy(degree, fmt::format("megatron.{}", degree));
    copy("num-virtual-stages-per-pipeline-rank", "megatron.virtual_pipeline_model_parallel_size");
    for (const char* flag : {"sequence_parallel", "use_distributed_optimizer"})
      add(flag, text(actor(fmt::format("megatron.{}", flag)), "True"));
    if (is_yes(text(actor("megatron.optimizer_offload"), "False")))
      add("optimizer-cpu-offload", "true");
    copy("decoder_first_pipeline_num_layers",
         "megatron.override_transformer_config.num_layers_in_first_pipeline_stage");
    copy("decoder_last_pipeline_num_layers",
         "megatron.override_transformer_config.num_layers_in_last_pipeline_stage");
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
    if (is_yes(text(actor("use_dynamic_bsz"), "False"))) {
      const std::int64_t tokens = number(actor("ppo_max_token_len_per_gpu"), 16384);
      add("micro-batch-size", fmt::to_string(std::max<std::int64_t>(1, tokens / length)));
    } else {
      add("micro-batch-size", fmt::to_string(number(actor("ppo_micro_batch_size_per_gpu"), {})));
    }
  }

  const Values& values_;
  const std::string& file_;
  Values arguments_;
};

}  // namespace

std::optional<PostTrainerJob> post_trainer_job(const std::string& text, const std::string& file,
                                               const JobOptions& options) {
  constexpr std::array<std::string_view, 4> kStarts{"megatron pt", "megatron sft", "megatron rlhf",
                                                    "verl.trainer.main_ppo"};
  if (std::ranges::none_of(kStarts, [&](auto word) { return text.find(word) != text.npos; }))
    return std::nullopt;
  const ShellScript script = read_script(text, file, options.environment, options.files);
  if (const CommandWords* words = swift_command(script)) {
    return PostTrainerJob{swift_arguments(script, *words, file, options),
                          {"max-length", "every sample is taken as long, as packing makes them"}};
  }
  const std::optional<Values> values = verl_values(script);
  if (!values) return std::nullopt;
  return PostTrainerJob{
      VerlJob(*values, file).arguments(options),
      {"actor",
       "the plan is its update: rollouts, the reference's and the reward's passes "
       "are no part of the step, and samples are as long as they may become"}};
}

void take_slimes_defaults(Arguments& a) {
  if (!a.says("hf-checkpoint") || !a.says("rollout-batch-size")) return;
  if (!a.says("fp16") && !a.says("bf16")) a.fill("bf16", "", "dtype");
  if (!a.says("use-distributed-optimizer")) a.fill("use-distributed-optimizer", "", "zero");
}

}  // namespace weir
