// A torchtitan job as the TOML file of its versions 0.2; it reads back by `weir plan --from
// torchtitan`.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plan/model/readers/layer_list.hpp"
#include "tools/jobs/toml/change.hpp"
#include "tools/jobs/torchtitan/converters.hpp"
#include "tools/jobs/torchtitan/export.hpp"
#include "tools/jobs/torchtitan/flavor.hpp"
#include "tools/jobs/torchtitan/import.hpp"

namespace weir {
namespace {

std::string toml_table(std::string_view name, const TorchtitanJob::Fields& fields) {
  std::string text = fmt::format("[{}]\n", name);
  for (const auto& [key, value] : fields) text += fmt::format("{} = {}\n", key, value);
  return text + "\n";
}

ExportedJob written_job(const ResolvedPlan& loaded, const ExportOptions& options) {
  const Plan& plan = loaded.plan;
  const Optimizer& o = plan.optimizer;
  ExportedJob made;
  TorchtitanJob job =
      torchtitan_job(loaded, Trainer::torchtitan_0_2, options.allowed, made.not_carried);
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
  TorchtitanJob::Fields model{{"name", "\"llama3\""},
                              {"flavor", fmt::format("\"{}\"", job.flavor)}};
  const TomlConverters converters = toml_converters(plan);
  model.insert(model.end(), converters.model.begin(), converters.model.end());
  text += toml_table("model", model);
  if (!converters.table.empty()) text += toml_table(converters.table, converters.fields);
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
  if (plan.overlap_tensor_parallel) text += toml_table("compile", {{"enable", "true"}});
  if (job.own_sizes) text += toml_table("experimental", {{"custom_import", "\"weir_flavor\""}});
  made.files.push_back({"job.toml", std::move(text)});
  if (job.own_sizes) made.files.push_back({"weir_flavor.py", toml_flavor(*job.own_sizes)});
  if (!job.schedule.empty()) made.files.push_back({"schedule.csv", job.schedule});
  made.not_carried.push_back(
      {"data", "a plan has none: give --training.dataset and --training.steps"});
  made.launch = (job.own_sizes ? "PYTHONPATH=. " : "") + torchrun(nodes_of(plan, options)) +
                " -m torchtitan.train --job.config_file job.toml";
  return made;
}

// The user's own job, changed where the plan is not what the job says.
std::optional<ExportedJob> changed_job(const ResolvedPlan& loaded, const ExportOptions& options) {
  const std::optional<Job> own = own_job(loaded, "torchtitan", &read_torchtitan_job);
  const bool same = own && to_layer_list(own->model) == to_layer_list(loaded.model);
  if (!same || own->plan.schedule.ends_with(".csv")) return std::nullopt;
  const ExportedJob before = written_job(resolved(*own, kOwnJob), options);
  ExportedJob after = written_job(loaded, options);
  std::string& text = after.files.front().text;
  ChangedToml changed =
      changed_toml(job_text(loaded.plan.job.lines), before.files.front().text, text, kOwnJob);
  text = std::move(changed.text);
  const JobOptions devices{.gpus = loaded.plan.devices(), .model = &loaded.model};
  std::erase_if(after.not_carried, [&](const Remark& r) {
    const auto said = [&](const Remark& b) { return b.name == r.name && b.text == r.text; };
    return r.name == "data" || std::ranges::any_of(before.not_carried, said);
  });
  after.whole_job = true;
  if (!changed.in_place) {
    after.not_carried.push_back(
        {"job", "its file could not be changed where it stands: comments and the keys' order"});
  }
  // A plan is one of the passes that the job adds up.
  for (const Remark& remark : own->remarks) {
    const bool other = own->plan.global_batch_size() != loaded.plan.global_batch_size();
    if (other && remark.name == "training.global_batch_size")
      after.not_carried.push_back({"global_batch_size", "the job's " + remark.text});
  }
  remark_differences(read_torchtitan_job(text, kOwnJob, devices).plan, loaded.plan,
                     after.not_carried);
  return after;
}

}  // namespace

ExportedJob export_torchtitan_toml(const ResolvedPlan& loaded, const ExportOptions& options) {
  if (auto changed = changed_job(loaded, options)) return std::move(*changed);
  return written_job(loaded, options);
}

}  // namespace weir
