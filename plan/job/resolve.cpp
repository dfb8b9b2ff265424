// Brings a plan's parts together, validates them against each other, and derives what follows.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/resolve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "plan/job/direct_skips.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/program/deadlock.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "plan/schedule/validate.hpp"
#include "plan/text/sha256.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

void check_shape(const Plan& plan, const ScheduleShape& shape, const std::string& file) {
  if (shape.ranks != plan.pp || shape.stages != plan.stages() ||
      shape.microbatches != plan.microbatches) {
    throw InputError(
        file, "",
        fmt::format("is for K = {}, {} stages and M = {}; the plan says {}, {} and {}", shape.ranks,
                    shape.stages, shape.microbatches, plan.pp, plan.stages(), plan.microbatches));
  }
  if (shape.segments != plan.slices) {
    throw InputError(file, "",
                     fmt::format("slices sequences by {}; the plan says slices = {}",
                                 shape.segments, plan.slices));
  }
}

Schedule schedule_of(const Plan& plan, const std::filesystem::path& base, const std::string& file) {
  if (plan.schedule.ends_with(".csv")) {
    const auto path = base / plan.schedule;
    Schedule schedule = parse_schedule_csv(read_text_file(path), path.string());
    schedule.name = plan.schedule;
    check_shape(plan, schedule.shape, path.string());
    return schedule;
  }
  auto made = make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches, plan.slices});
  if (const auto* reason = std::get_if<std::string>(&made))
    throw InputError(file, "schedule", *reason);
  return std::get<Schedule>(std::move(made));
}

void check_model(const Plan& plan, const Model& model, const std::string& file) {
  // Before layers are counted: a vocabulary that is divided is two layers behind the stages'.
  if (const auto misfit = cannot_divide(model, plan))
    throw InputError(file, misfit->key, misfit->reason);
  const int layers = staged_layers(model);
  const bool divided = std::cmp_less(layers, model.layers.size());
  const int whole = layers + (divided ? 1 : 0);  // with the head
  if (static_cast<int>(plan.boundaries.size()) != plan.stages() - 1) {
    throw InputError(file, "boundaries",
                     fmt::format("expected K*v-1 = {} layer indices, found {}", plan.stages() - 1,
                                 plan.boundaries.size()));
  }
  // Equal neighbours leave a stage empty, which require_stages() holds against the stack.
  int before = 0;
  for (const int boundary : plan.boundaries) {
    if (boundary < before || boundary > layers) {
      throw InputError(
          file, "boundaries",
          fmt::format("{}: expected ascending layer indices from 0 to {} (equal neighbours: an "
                      "empty stage)",
                      boundary, layers));
    }
    before = boundary;
  }
  if (!plan.recompute.layers.empty() && plan.recompute.layers.back().last > layers) {
    throw InputError(
        file, "recompute",
        fmt::format("{}: expected layers from 0 to {}{}", recompute_word(plan.recompute),
                    layers - 1, divided ? ": shards of the head are not rebuilt" : ""));
  }
  if (!plan.frozen.empty() && plan.frozen.back().last > whole) {
    throw InputError(
        file, "frozen",
        fmt::format("{}: expected layers from 0 to {}", layers_word(plan.frozen), whole - 1));
  }
  require_positions(plan, model, file);
  // Images and timed layers have no length.
  if (plan.seq_length == 0 && model.family != "timed" &&
      model.seq_length + model.max_positions > 0) {
    throw InputError(file, "seq_length", "expected at least 1 for a model of sequences");
  }
}

Model model_of(const Plan& plan, const std::filesystem::path& base, const std::string& file) {
  const auto model_file = base / plan.model_path;
  const std::string bytes = read_text_file(model_file);
  const std::string hash = sha256_hex(bytes);
  // Boundaries and tensors are of the file as it was.
  if (hash != plan.model_sha256) {
    throw InputError(file, "model_sha256",
                     fmt::format("{} has changed since the plan was made (now {})",
                                 model_file.string(), hash.substr(0, 12)));
  }
  Model model = load_model(model_file);
  set_treatment(model, plan);
  check_model(plan, model, file);
  return model;
}

bool holds(const StagePart& stage, const std::vector<ParameterId>& uses) {
  return std::any_of(uses.begin(), uses.end(), [&](ParameterId use) {
    return use.layer >= stage.layers.first && use.layer < stage.layers.last;
  });
}

// The program that the proof is of is the one that all engines run.
ResolvedPlan checked(const Plan& plan, Model model, Schedule schedule, const std::string& file) {
  // Before derive(), which counts on a schedule without faults.
  if (const auto fault = validate(schedule, {.allow_reordered = plan.allow_reordered}))
    throw InputError(file, "schedule", fmt::format("{}\n{}", fault->reason, fault->picture));
  if (const auto misfit = cannot_go_directly(model, plan, schedule.shape))
    throw InputError(file, misfit->key, misfit->reason);
  ResolvedPlan resolved = derive(plan, std::move(model), std::move(schedule));
  if (const auto cycle = find_cycle(resolved.program)) {
    throw InputError(file, "schedule",
                     fmt::format("would deadlock with {} receive slots an edge:\n{}", plan.slots,
                                 describe_cycle(resolved.program, *cycle)));
  }
  return resolved;
}

ResolvedPlan resolve_from(const Plan& plan, const std::filesystem::path& base,
                          const std::string& file) {
  Model model = model_of(plan, base, file);
  return checked(plan, std::move(model), schedule_of(plan, base, file), file);
}

}  // namespace

void require_positions(const Plan& plan, const Model& model, const std::string& file) {
  if (model.longer || model.max_positions == 0 || plan.seq_length <= model.max_positions) return;
  throw InputError(
      file, "seq_length",
      fmt::format("{} is above the model's {} positions", plan.seq_length, model.max_positions));
}

ResolvedPlan load_plan(const std::filesystem::path& file,
                       const std::function<void(const Plan&)>& before_schedule) {
  PlanFile read = read_plan(read_text_file(file), file.string());
  if (before_schedule) before_schedule(read.plan);
  ResolvedPlan resolved = resolve_from(read.plan, file.parent_path(), file.string());
  resolved.remarks = std::move(read.remarks);
  return resolved;
}

ResolvedPlan resolve(const Plan& plan, const std::filesystem::path& base) {
  return resolve_from(plan, base, "plan");
}

ResolvedPlan resolve(const Plan& plan, const std::filesystem::path& base, Schedule schedule) {
  check_shape(plan, schedule.shape, schedule.name);
  Model model = model_of(plan, base, "plan");
  return checked(plan, std::move(model), std::move(schedule), "plan");
}

void require_stages(const ResolvedPlan& resolved, const Stack& stack) {
  if (stack.empty_stages) return;
  const auto empty = std::ranges::find_if(
      resolved.stages, [](const StagePart& stage) { return stage.layers.size() == 0; });
  if (empty == resolved.stages.end()) return;
  const int layers = staged_layers(resolved.model);
  const int stages = resolved.plan.stages();
  throw InputError(
      "plan", stages > layers ? "pp" : "boundaries",
      fmt::format("stage {} of {} has none of the {} layers: the stack {} has no empty stages",
                  empty - resolved.stages.begin(), stages, layers, stack.name));
}

StagePart stage_part(const ModelPart& part, LayerRange layers) {
  StagePart stage;
  stage.layers = layers;
  auto run = std::ranges::upper_bound(part.runs, layers.first, {}, &LayerRange::last);
  for (; run != part.runs.end() && run->first < layers.last; ++run) {
    const std::int64_t count =
        std::min(run->last, layers.last) - std::max(run->first, layers.first);
    const LayerPart& each = part.layer(run->first);
    stage.parameters += count * each.parameters;
    stage.expert_parameters += count * each.expert_parameters;
    stage.trained_parameters += count * each.trained_parameters;
    stage.trained_expert_parameters += count * each.trained_expert_parameters;
    stage.trained_products += count * each.trained_products;
  }
  // What crosses is the boundary's, whoever stands beside it: an empty stage hands on what it
  // takes. Before the first layer nothing is made yet.
  const auto crossing = [&part](int boundary) {
    return boundary == 0 ? 0 : part.layer(boundary - 1).crossing_bytes;
  };
  stage.input_bytes = crossing(layers.first);
  stage.output_bytes = crossing(layers.last);
  return stage;
}

std::vector<StagePart> stage_parts(const ModelPart& part, const std::vector<int>& boundaries,
                                   const ScheduleShape& shape) {
  std::vector<StagePart> stages;
  for (std::int32_t s = 0; s < shape.total_stages(); ++s) {
    // Two layers behind the others, of which every rank has one more stage.
    if (shape.is_shard(Stage{s})) {
      stages.push_back(stage_part(part, {part.size() - 2, part.size()}));
      stages.back().input_bytes = 0;  // no message brings it: its copy is the tokens' output
      continue;
    }
    // Copies of stages are numbered on and hold the same layers.
    const auto index = static_cast<std::size_t>(s % shape.stages);
    const int first = index == 0 ? 0 : boundaries[index - 1];
    const int end = part.size() - (shape.shards() > 0 ? 2 : 0);
    const int last = index < boundaries.size() ? boundaries[index] : end;
    stages.push_back(stage_part(part, {first, last}));
  }
  return stages;
}

std::vector<Tie> ties_of(const ModelPart& part, const std::vector<StagePart>& stages,
                         const ScheduleShape& shape) {
  std::vector<Tie> ties;
  for (const std::vector<ParameterId>& uses : part.ties) {
    if (part.parameter(uses.front()).frozen) continue;  // no gradients to add up
    Tie tie{part.parameter(uses.front()).elements(), {}};
    // Those of the first copy; lowering repeats them for the others.
    for (std::int32_t s = 0; s < shape.stages; ++s) {
      if (holds(stages[static_cast<std::size_t>(s)], uses)) tie.holders.push_back(Stage{s});
    }
    if (tie.holders.size() > 1) ties.push_back(std::move(tie));
  }
  return ties;
}

}  // namespace weir
