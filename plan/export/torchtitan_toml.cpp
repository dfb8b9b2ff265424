// A torchtitan job as the TOML file of its versions 0.2; it reads back by `weir plan --from
// torchtitan`.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/export/torchtitan.hpp"

namespace weir {
namespace {

std::string toml_table(std::string_view name, const TorchtitanJob::Fields& fields) {
  std::string text = fmt::format("[{}]\n", name);
  for (const auto& [key, value] : fields) text += fmt::format("{} = {}\n", key, value);
  return text + "\n";
}

}  // namespace

ExportedJob export_torchtitan_toml(const ResolvedPlan& loaded, const ExportOptions& options) {
  const Plan& plan = loaded.plan;
  const Optimizer& o = plan.optimizer;
  ExportedJob made;
  TorchtitanJob job = torchtitan_job(loaded, "output", made.not_carried);
  const int local = plan.micro_batch_size * (plan.pp > 1 ? plan.microbatches : 1);
  TorchtitanJob::Fields training{{"local_batch_size", fmt::to_string(local)},
                                 {"global_batch_size", fmt::to_string(plan.global_batch_size())},
                                 {"seq_len", fmt::to_string(plan.seq_length)}};
  training.insert(training.end(), job.training.begin(), job.training.end());
  if (plan.pp > 1)
    job.parallelism.emplace_back("pipeline_parallel_microbatch_size",
                                 fmt::to_string(plan.micro_batch_size));
  TorchtitanJob::Fields checkpoint{
      {"mode", job.rebuilt_every ? "\"selective\"" : fmt::format("\"{}\"", job.checkpointing)}};
  if (job.rebuilt_every || job.checkpointing == "selective")
    checkpoint.emplace_back(
        "selective_ac_option",
        fmt::format("\"{}\"", job.rebuilt_every ? fmt::to_string(*job.rebuilt_every) : "op"));
  std::string text = "# Written by weir export, for torchtitan 0.2.\n\n";
  text +=
      toml_table("model", {{"name", "\"llama3\""}, {"flavor", fmt::format("\"{}\"", job.flavor)}});
  text +=
      toml_table("optimizer", {{"name", o.kind == OptimizerKind::adam ? "\"Adam\"" : "\"AdamW\""},
                               {"lr", python_number(o.learning_rate)},
                               {"beta1", python_number(o.beta1)},
                               {"beta2", python_number(o.beta2)},
                               {"eps", python_number(o.epsilon)},
                               {"weight_decay", python_number(o.weight_decay)}});
  text += toml_table("lr_scheduler", job.rate) + toml_table("training", training) +
          toml_table("parallelism", job.parallelism) +
          toml_table("activation_checkpoint", checkpoint) +
          toml_table("debug", {{"seed", fmt::to_string(plan.seed)}});
  made.files.push_back({"job.toml", std::move(text)});
  if (!job.schedule.empty()) made.files.push_back({"schedule.csv", job.schedule});
  made.not_carried.push_back(
      {"data", "a plan has none: give --training.dataset and --training.steps"});
  made.launch =
      torchrun(nodes_of(plan, options)) + " -m torchtitan.train --job.config_file job.toml";
  return made;
}

}  // namespace weir
