// A torchtitan job as a Python registry of one configuration, in the words of August 2026
// (pytorch/torchtitan@b5bcd76c6); it reads back by `weir plan --from torchtitan`.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tools/jobs/torchtitan/converters.hpp"
#include "tools/jobs/torchtitan/export.hpp"
#include "tools/jobs/torchtitan/flavor.hpp"

namespace weir {
namespace {

// "Callee(name=value, ...)", a field a line.
std::string python_call(std::string_view callee, const TorchtitanJob::Fields& fields,
                        std::string_view indent) {
  if (fields.empty()) return fmt::format("{}()", callee);
  std::string text = fmt::format("{}(\n", callee);
  for (const auto& [name, value] : fields) {
    text += fmt::format("{}    {}=", indent, name);
    // The lines of a list stand under their field.
    for (const char c : value) {
      text += c;
      if (c == '\n') text += fmt::format("{}    ", indent);
    }
    text += ",\n";
  }
  return fmt::format("{}{})", text, indent);
}

// AdamW has a word of its own; any other optimizer is a group of all parameters.
std::string optimizer_call(const Optimizer& o, std::string_view indent) {
  const std::string betas = fmt::format("({}, {})", python_number(o.beta1), python_number(o.beta2));
  if (o.kind != OptimizerKind::adam) {
    return python_call("default_adamw",
                       {{"lr", python_number(o.learning_rate)},
                        {"betas", betas},
                        {"eps", python_number(o.epsilon)},
                        {"weight_decay", python_number(o.weight_decay)}},
                       indent);
  }
  const std::string group = fmt::format(
      "[\n    ParamGroupConfig(\n        pattern=r\".*\",\n        optimizer_name=\"Adam\",\n"
      "        optimizer_kwargs={{\n            \"lr\": {},\n            \"betas\": {},\n"
      "            \"eps\": {},\n            \"weight_decay\": {},\n        }},\n    ),\n]",
      python_number(o.learning_rate), betas, python_number(o.epsilon),
      python_number(o.weight_decay));
  return python_call("OptimizersContainer.Config", {{"param_groups", group}}, indent);
}

std::string_view policy_call(const TorchtitanJob& job) {
  if (job.checkpointing == "none") return "None";
  return job.checkpointing == "full" ? "FullAC.Config()" : "SelectiveAC.Config()";
}

std::string model_call(std::string_view flavor, const std::string& converters) {
  if (converters.empty()) return fmt::format("model_registry(\"{}\")", flavor);
  return fmt::format("model_registry(\"{}\", converters={})", flavor, converters);
}

// A stream that is cut, or whole documents fitted in; the data are torchtitan's example.
std::string_view packing_class(const SequenceLengths& lengths) {
  return lengths.rows == RowsOf::cut ? "ConcatThenSplitPackingConfig" : "FirstFitPackingConfig";
}

std::string dataloader_call(const SequenceLengths& lengths) {
  return python_call(
      "GrainDataLoader.Config",
      {{"dataset", fmt::format("{}(dataset=DATASETS[\"c4\"])", packing_class(lengths))}}, "");
}

std::string packing_imports(const SequenceLengths& lengths) {
  if (!lengths.known()) return "";
  return fmt::format(
      "from torchtitan.components.data import {}, GrainDataLoader\n"
      "from torchtitan.hf_datasets.text_datasets import DATASETS\n",
      packing_class(lengths));
}

// What the files take besides where they have converters.
std::string_view converter_imports(const Plan& plan) {
  if (plan.lora.rank > 0 && plan.fp8 != Fp8Recipe::none) {
    return "from torchtitan.components.lora import LoRAConverter\n"
           "from torchtitan.components.quantization import (\n"
           "    Float8LinearConverter,\n    MXFP8LinearConverter,\n)\n";
  }
  if (plan.lora.rank > 0) return "from torchtitan.components.lora import LoRAConverter\n";
  if (plan.fp8 == Fp8Recipe::none) return "";
  return "from torchtitan.components.quantization import (\n"
         "    Float8LinearConverter,\n    MXFP8LinearConverter,\n)\n";
}

constexpr std::string_view kHead =
    "# Written by weir export, for torchtitan of August 2026: one configuration.\n";
constexpr std::string_view kImports =
    "from torchtitan.components.optimizer import (\n"
    "    default_adamw,\n    LRSchedulersContainer,\n    OptimizersContainer,\n"
    "    ParamGroupConfig,\n)\n"
    "from torchtitan.config import CompileConfig, DebugConfig, ParallelismConfig, TrainingConfig\n"
    "from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC\n"
    "from torchtitan.models import llama3\n"
    "from torchtitan.models.common import ComplexRoPE\n"
    "from torchtitan.models.llama3 import model_registry\n"
    "from torchtitan.trainer import Trainer\n\n\n";

}  // namespace

ExportedJob export_torchtitan_registry(const ResolvedPlan& loaded, const ExportOptions& options) {
  const Plan& plan = loaded.plan;
  ExportedJob made;
  TorchtitanJob job =
      torchtitan_job(loaded, Trainer::torchtitan, options.allowed, made.not_carried);
  if (job.rebuilt_every) {
    made.not_carried.push_back(
        {"recompute", fmt::format("{}: the registry has no word for every so many blocks: full "
                                  "in the file",
                                  recompute_word(plan.recompute))});
  }
  TorchtitanJob::Fields training{
      {"num_tokens_per_microbatch_per_dp_rank",
       fmt::format("{} * {}", plan.micro_batch_size, plan.seq_length)},
      {"max_context_length", fmt::to_string(plan.seq_length)},
      {"num_tokens_per_train_step",
       fmt::format("{} * {}", plan.global_batch_size(), plan.seq_length)}};
  training.insert(training.end(), job.training.begin(), job.training.end());
  if (plan.fp8 == Fp8Recipe::tensorwise)
    made.not_carried.push_back({"fp8", "tensorwise: torchtitan's scales are by rows"});
  if (plan.pp > 1)
    job.parallelism.emplace_back("num_pp_microbatches", fmt::to_string(plan.microbatches));
  constexpr std::string_view kIndent = "        ";
  TorchtitanJob::Fields fields{
      {"model_spec", model_call(job.flavor, registry_converters(plan))},
      {"optimizer", optimizer_call(plan.optimizer, "")},
      {"lr_scheduler", python_call("LRSchedulersContainer.Config", job.rate, "")},
      {"training", python_call("TrainingConfig", training, "")},
      {"parallelism", python_call("ParallelismConfig", job.parallelism, "")},
      {"activation_checkpoint", std::string(policy_call(job))},
      {"debug", python_call("DebugConfig", {{"seed", fmt::to_string(plan.seed)}}, "")}};
  if (plan.overlap_tensor_parallel)
    fields.emplace_back(
        "compile", python_call("CompileConfig",
                               {{"enable", "True"}, {"enable_async_tensor_parallel", "True"}}, ""));
  const bool packs = plan.lengths.known();
  if (packs) fields.emplace_back("dataloader", dataloader_call(plan.lengths));
  const std::string config = python_call("Trainer.Config", fields, kIndent.substr(4));
  std::string imports = fmt::format("{}{}{}{}", kHead, packing_imports(plan.lengths),
                                    converter_imports(plan), kImports);
  if (job.own_sizes) imports += registry_flavor(*job.own_sizes);
  made.files.push_back(
      {"config_registry.py",
       fmt::format("{}def weir_job() -> Trainer.Config:\n    return {}\n", imports, config)});
  if (!job.schedule.empty()) made.files.push_back({"schedule.csv", job.schedule});
  made.not_carried.push_back(
      {"data", packs ? "a plan has none: c4 stands in the file for yours; give it training.steps"
                     : "a plan has none: give the configuration a dataloader and training.steps"});
  made.launch = "PYTHONPATH=. " + torchrun(nodes_of(plan, options)) +
                " -m torchtitan.train --module config_registry --config weir_job";
  return made;
}

}  // namespace weir
