// `weir plan`: writes a plan by hand, or from another tool's job (tools/weir/import).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>

#include "plan/model/readers/model_import.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/search/balance.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/host.hpp"
#include "tools/weir/import.hpp"
#include "tools/weir/options.hpp"
#include "tools/weir/parallel_options.hpp"
#include "tools/weir/schedule_source.hpp"

namespace weir {
namespace {

struct PlanCommand {
  PlanOptions common;
  ParallelOptions parallel;
  int pp = 1, vpp = 1, microbatches = 1, micro_batch_size = 1;
  std::optional<int> global_batch_size;
  bool sizes_given = false;
  std::string schedule = "1f1b", recompute = "none", recompute_microbatches, boundaries;
  std::filesystem::path output;
  std::optional<std::filesystem::path> cluster, costs;
  ImportOptions import;
};

void check_batch(PlanCommand& c, bool b_given) {
  if (!c.global_batch_size) return;
  const int dp = c.parallel.dp.value_or(1);
  const std::int64_t others = std::int64_t{c.microbatches} * dp;
  if (!b_given && *c.global_batch_size % others == 0) {
    c.micro_batch_size = static_cast<int>(*c.global_batch_size / others);
  }
  if (c.micro_batch_size * others != *c.global_batch_size) {
    throw UsageError(fmt::format(
        "--global-batch-size {} contradicts --micro-batch-size {} times --microbatches {}{}",
        *c.global_batch_size, c.micro_batch_size, c.microbatches,
        dp > 1 ? fmt::format(" times --dp {}", dp) : ""));
  }
}

void write_plan(PlanCommand& c, bool b_given, const GlobalOptions& global) {
  check_batch(c, b_given);
  const Model model = load_model(c.common);
  Plan plan = base_plan(c.common, global.seed, model);
  plan.pp = c.pp;
  plan.vpp = c.vpp;
  plan.microbatches = c.microbatches;
  plan.micro_batch_size = c.micro_batch_size;
  plan.schedule = c.schedule;
  plan.recompute = parse_recompute(c.recompute, c.recompute_microbatches);
  apply(c.parallel, plan);
  if (const auto misfit = cannot_split(model, plan.seq_length, plan.split())) {
    throw InputError("plan", misfit->key, misfit->reason);
  }
  if (plan.stages() > static_cast<int>(model.layers.size())) {
    throw InputError("--pp", "",
                     fmt::format("K*v = {} is above the {} layers of {}", plan.stages(),
                                 model.layers.size(), c.common.model.string()));
  }
  if (!c.boundaries.empty()) {
    plan.boundaries = parse_numbers(c.boundaries, "--boundaries");
  } else {
    const Cluster cluster = cluster_or_host(c.cluster);
    plan.boundaries =
        balanced_boundaries(model, plan, costs_or_builtin(c.costs, model, plan, cluster), cluster);
  }
  const ScheduleSource source{plan.schedule, plan.pp, plan.vpp, plan.microbatches, false};
  const Schedule schedule = obtain_schedule(source);
  if (!c.common.slots) plan.slots = fewest_slots(schedule, 2);
  if (is_program(plan.schedule)) {
    if (c.output.empty())
      throw UsageError("--schedule exec: needs -o: what it prints is kept beside the plan");
    plan.schedule = std::filesystem::path(c.output).replace_extension("schedule.csv").string();
    write_file_atomically(plan.schedule, to_csv(schedule));
  }
  // Validated as it stands, then with its paths relative to where the plan will be.
  static_cast<void>(resolve(plan, "."));
  if (c.output.empty()) {
    fmt::print("{}", to_json(plan));
    return;
  }
  plan = rebased(plan, ".", std::filesystem::absolute(c.output).parent_path());
  save_plan(plan, c.output);
  fmt::print("{}: {}\n", c.output.string(), summary(plan));
}

// With --from the file says everything; an option that would contradict it is refused.
void write_imported(PlanCommand& c, const CLI::App& command, const GlobalOptions& global) {
  constexpr std::array kTogether{"model",   "--from",       "--model", "--gpus",  "--dp",
                                 "--slots", "--vocab-size", "--note",  "--output"};
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 ||
        std::ranges::any_of(kTogether, [&](const char* n) { return option->check_name(n); })) {
      continue;
    }
    throw UsageError(
        fmt::format("{} contradicts --from: the job's file says it", option->get_name()));
  }
  c.import.file = c.common.model;
  c.import.dp = c.parallel.dp;  // where the file does not say
  c.import.output = c.output;
  c.import.note = c.common.note;
  c.import.slots = c.common.slots.value_or(2);
  import_plan(c.import, global);
}

void add_import_options(CLI::App& command, ImportOptions& o) {
  const CLI::Range positive(1, 1 << 20);
  command
      .add_option("--from", o.from,
                  "Read MODEL as a job of megatron (arguments, launch script) or torchtitan (TOML)")
      ->check(CLI::IsMember({"megatron", "torchtitan"}));
  command.add_option("--model", o.model, "With --from: the model, where the job only names it");
  command
      .add_option("--gpus", o.gpus, "With --from: devices of the job, where its file does not say")
      ->check(positive);
  command
      .add_option("--vocab-size", o.vocabulary, "With --from: tokens, where the file does not say")
      ->check(positive);
}

}  // namespace

void add_plan_command(CLI::App& app, GlobalOptions& global) {
  CLI::App* command = app.add_subcommand("plan", "Write a plan by hand");
  auto c = std::make_shared<PlanCommand>();
  add_plan_options(*command, c->common);
  const CLI::Range positive(1, 1 << 20);
  command->add_option("-K,--pp", c->pp, "Ranks of the pipeline")
      ->check(positive)
      ->capture_default_str();
  command->add_option("-v,--vpp", c->vpp, "Stages a rank")->check(positive)->capture_default_str();
  command->add_option("-M,--microbatches", c->microbatches, "Micro-batches a step")
      ->check(positive)
      ->capture_default_str();
  CLI::Option* b =
      command->add_option("-b,--micro-batch-size", c->micro_batch_size, "Samples a micro-batch")
          ->check(positive)
          ->capture_default_str();
  command->add_option("--global-batch-size", c->global_batch_size, "Samples a step: G = b M D")
      ->check(positive);
  add_parallel_options(*command, c->parallel);
  command
      ->add_option("--schedule", c->schedule,
                   "A schedule's name, a CSV file, or exec:COMMAND, run as COMMAND K M v")
      ->capture_default_str();
  command
      ->add_option("--recompute", c->recompute,
                   "none (never), selective, full (always), except-last")
      ->capture_default_str();
  command->add_option("--recompute-microbatches", c->recompute_microbatches, "all or except-last");
  command->add_option("--boundaries", c->boundaries,
                      "First layers of stages 1..., as 3,6 (default: the exact best)");
  command->add_option("--cluster", c->cluster,
                      "Cluster whose devices the stages are balanced for (default: this machine)");
  command->add_option("--costs", c->costs, "Costs to balance the stages by (default: built in)");
  command->add_option("-o,--output", c->output, "Plan file (default: stdout)");
  add_import_options(*command, c->import);
  command->callback([c, b, command, &global] {
    if (!c->import.from.empty()) return write_imported(*c, *command, global);
    for (const char* name : {"--model", "--gpus", "--vocab-size"}) {
      if (command->count(name) > 0) throw UsageError(fmt::format("{} needs --from", name));
    }
    write_plan(*c, b->count() > 0, global);
  });
}

}  // namespace weir
