// Defaults are those of modelscope/ms-swift (swift/megatron/arguments/megatron_args.py) of 2026.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/post_trainers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/words/error.hpp"
#include "tools/jobs/job/truth.hpp"
#include "tools/jobs/megatron/post_adapters.hpp"
#include "tools/jobs/megatron/post_arguments.hpp"
#include "tools/jobs/megatron/verl.hpp"

namespace weir {
namespace {

using CommandWords = std::vector<std::string>;
using Values = PostTrainerValues;

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
      if (value == "true") {
        value = word;
      } else {
        value += " ";
        value += word;
      }
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

// Into the job: arguments, adapters, frozen layers, and what of the samples is known.
void translate_swift(const ShellScript& script, const CommandWords& words, const std::string& file,
                     const JobOptions& options, TranslatedJob& job) {
  const std::string& trains = *(std::ranges::find(words, "megatron") + 1);
  if (trains == "rlhf") {
    throw InputError(file, "megatron rlhf",
                     "preferences are trained by a second model beside the first, which is not "
                     "modelled: pt and sft are read");
  }
  Values values = swift_values(words);
  job.lora = take_swift_adapters(values, file);
  const auto model = values.extract("model");
  require_model(options, file, "ms-swift", model ? model.mapped() : "");
  const bool adapters = job.lora.has_value();
  job.frozen = take_swift_frozen(values, *options.model, adapters, file, job.remarks);
  if (!adapters) values.erase("modules-to-save");  // beside adapters alone
  // Its own names of two arguments, and of samples.
  for (const auto& [own, megatron] : std::initializer_list<std::pair<const char*, const char*>>{
           {"max-length", "seq-length"},
           {"virtual-pipeline-model-parallel-size", "num-virtual-stages-per-pipeline-rank"},
           {"microbatch-group-size-per-vp-stage",
            "microbatch-group-size-per-virtual-pipeline-stage"}}) {
    if (auto value = values.extract(own)) values[megatron] = value.mapped();
  }
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"attention-backend", "flash"},
           {"use-distributed-optimizer", "true"},
           {"recompute-granularity", "selective"},
           {"moe-token-dispatcher-type", "alltoall"},
           {"weight-decay", "0.1"},
           {"adam-beta2", "0.95"},
           {"lr-decay-style", "cosine"},
           {"seed", "42"},
           {"micro-batch-size", "1"},
           {"global-batch-size", "16"}})
    values.try_emplace(name, value);
  if (values["recompute-granularity"] == "none") values.erase("recompute-granularity");
  if (!values.contains("fp16")) values.try_emplace("bf16", "true");
  const bool packs = values.contains("packing") && !says_false(values["packing"]);
  job.remarks.push_back({"max-length", packs
                                           ? "every sample is taken as long, as packing makes them"
                                           : "every sample is taken as long as it may become"});
  if (auto off = remark_on_off(values)) job.remarks.push_back(*std::move(off));
  job.arguments = command_line(values, swift_launcher(script));
}

}  // namespace

std::optional<TranslatedJob> post_trainer_job(const std::string& text, const std::string& file,
                                              const JobOptions& options) {
  constexpr std::array<std::string_view, 4> kStarts{"megatron pt", "megatron sft", "megatron rlhf",
                                                    "verl.trainer.main_ppo"};
  if (std::ranges::none_of(kStarts, [&](auto word) { return text.find(word) != text.npos; }))
    return std::nullopt;
  const ShellScript script = read_script(text, file, options.environment, options.files);
  TranslatedJob job{.filled_in = true, .of_script = script.remarks};
  if (auto taken = remark_on_taken(script.taken)) job.of_script.push_back(*std::move(taken));
  if (const CommandWords* words = swift_command(script)) {
    translate_swift(script, *words, file, options, job);
    return job;
  }
  if (!take_verl(script, file, options, job)) return std::nullopt;
  return job;
}

}  // namespace weir
