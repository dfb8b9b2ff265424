// `weir plan`: writes a plan by hand.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "plan/error.hpp"
#include "plan/lower.hpp"
#include "plan/model_import.hpp"
#include "plan/schedule_csv.hpp"
#include "plan/text_file.hpp"
#include "sim/partition.hpp"
#include "sim/search/sweep.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/host.hpp"
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
  std::optional<std::filesystem::path> costs;
};

void check_batch(PlanCommand& c, bool b_given) {
  if (!c.global_batch_size) return;
  const int dp = c.parallel.dp.value_or(1);
  const std::int64_t others = std::int64_t{c.microbatches} * dp;
  if (!b_given && *c.global_batch_size % others == 0) {
    c.micro_batch_size = static_cast<int>(*c.global_batch_size / others);
  }
  if (c.micro_batch_size * others != *c.global_batch_size) {
    throw UsageError(fmt::format("--global-batch-size {} contradicts --micro-batch-size {} times --microbatches {}{}",
                                 *c.global_batch_size, c.micro_batch_size, c.microbatches,
                                 dp > 1 ? fmt::format(" times --dp {}", dp) : ""));
  }
}

void write_plan(PlanCommand& c, bool b_given, const GlobalOptions& global) {
  check_batch(c, b_given);
  const Model model = load_model(c.common.model);
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
                     fmt::format("K*v = {} is above the {} layers of {}", plan.stages(), model.layers.size(),
                                 c.common.model.string()));
  }
  if (!c.boundaries.empty()) {
    plan.boundaries = parse_numbers(c.boundaries, "--boundaries");
  } else {
    const Cluster cluster = host_cluster();
    plan.boundaries = best_boundaries(
        layer_times(model, plan, costs_or_builtin(c.costs, model, plan, cluster), cluster), plan.stages());
  }
  const bool own_schedule = is_program(plan.schedule) || plan.schedule.ends_with(".csv");
  const ScheduleSource source{plan.schedule, plan.pp, plan.vpp, plan.microbatches, false};
  const Schedule schedule = obtain_schedule(source);
  if (!c.common.slots) plan.slots = fewest_slots(schedule, 2);
  if (is_program(plan.schedule)) {
    if (c.output.empty()) throw UsageError("--schedule exec: needs -o: what it prints is kept beside the plan");
    plan.schedule = std::filesystem::path(c.output).replace_extension("schedule.csv").string();
    write_file_atomically(plan.schedule, to_csv(schedule));
  }
  // Validated as it stands, then with its paths relative to where the plan will be.
  static_cast<void>(resolve(plan, "."));
  if (c.output.empty()) {
    fmt::print("{}", to_json(plan));
    return;
  }
  const auto folder = std::filesystem::absolute(c.output).parent_path();
  plan.model_path = std::filesystem::proximate(std::filesystem::absolute(c.common.model), folder).string();
  if (own_schedule) {
    plan.schedule = std::filesystem::proximate(std::filesystem::absolute(plan.schedule), folder).string();
  }
  save_plan(plan, c.output);
  fmt::print("{}: {}\n", c.output.string(), summary(plan));
}

}  // namespace

void add_plan_command(CLI::App& app, GlobalOptions& global) {
  CLI::App* command = app.add_subcommand("plan", "Write a plan by hand");
  auto c = std::make_shared<PlanCommand>();
  add_plan_options(*command, c->common);
  const CLI::Range positive(1, 1 << 20);
  command->add_option("-K,--pp", c->pp, "Ranks of the pipeline")->check(positive)->capture_default_str();
  command->add_option("-v,--vpp", c->vpp, "Stages a rank")->check(positive)->capture_default_str();
  command->add_option("-M,--microbatches", c->microbatches, "Micro-batches a step")
      ->check(positive)
      ->capture_default_str();
  CLI::Option* b = command->add_option("-b,--micro-batch-size", c->micro_batch_size, "Samples a micro-batch")
                       ->check(positive)
                       ->capture_default_str();
  command->add_option("--global-batch-size", c->global_batch_size, "Samples a step: G = b M D")->check(positive);
  add_parallel_options(*command, c->parallel);
  command->add_option("--schedule", c->schedule, "A schedule's name, a CSV file, or exec:COMMAND, run as COMMAND K M v")
      ->capture_default_str();
  command->add_option("--recompute", c->recompute, "none (never), selective, full (always), except-last")
      ->capture_default_str();
  command->add_option("--recompute-microbatches", c->recompute_microbatches, "all or except-last");
  command->add_option("--boundaries", c->boundaries, "First layers of stages 1..., as 3,6 (default: the exact best)");
  command->add_option("--costs", c->costs, "Costs to balance the stages by (default: built in)");
  command->add_option("-o,--output", c->output, "Plan file (default: stdout)");
  command->callback([c, b, &global] { write_plan(*c, b->count() > 0, global); });
}

}  // namespace weir
