// Plans, costs and schedules from wherever a request has them.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/shared/source.hpp"

#include <fmt/format.h>

#include <utility>

#include "costmodel/table/builtin.hpp"
#include "plan/job/summary.hpp"
#include "plan/model/readers/foreign_job.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "plan/text/quote.hpp"
#include "plan/text/schema.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/shared/memory_need.hpp"
#include "tools/app/shared/traced_plan.hpp"

namespace weir::app {

ResolvedPlan moved_to(const PlacedPlan& plan, const std::filesystem::path& folder) {
  ResolvedPlan moved = plan.loaded;
  moved.plan = rebased(moved.plan, plan.folder, folder);
  if (!plan.schedule_in_memory) return moved;
  moved.plan.schedule = plan.loaded.plan.schedule;
  const auto file = folder / moved.plan.schedule;
  const std::string csv = to_csv(moved.schedule);
  if (std::filesystem::exists(file) && read_text_file(file) != csv)
    throw InputError(file.string(), "",
                     "is another schedule; save to another folder, or rename the function");
  write_file_atomically(file, csv);
  return moved;
}

bool same_plan(const ResolvedPlan& a, const ResolvedPlan& b) {
  Plan same = a.plan;  // its paths are relative to another folder; of the model there is a hash
  same.model_path = b.plan.model_path;
  same.schedule = b.plan.schedule;
  return same == b.plan && a.schedule.order == b.schedule.order;
}

void note_remarks(const ResolvedPlan& plan, const std::filesystem::path& file,
                  const Session& session) {
  for (const std::string& remark : plan.remarks) session.note(file.string() + ": " + remark);
}

void guard_named(const PlacedPlan& plan, const Session& session) {
  session.guard(plan.folder / plan.loaded.plan.model_path);
  if (plan.loaded.plan.schedule.ends_with(".csv"))
    session.guard(plan.folder / plan.loaded.plan.schedule);
}

namespace {

// A layer list, or what Hugging Face calls a config.
bool is_model(const std::filesystem::path& file) {
  const Json json = Json::parse(read_text_file(file), nullptr, false);
  if (!json.is_object()) return false;
  return json.contains("schema") ? has_schema(json, "weir.layers/1")
                                 : json.contains("model_type") || json.contains("architectures");
}

// A job of another tool, and how it becomes a plan; nothing of other files.
void refuse_job(const std::filesystem::path& file) {
  const ForeignTool tool = tool_of_text(read_text_file(file));
  if (tool.name.empty()) return;
  const std::string how = tool.reader.empty()
                              ? fmt::format("is a job of {}, which is not read", tool.name)
                              : fmt::format(
                                    "is a job of {}: make a plan of it, as weir plan --from {} "
                                    "{} -o plan.json",
                                    tool.name, tool.reader, shell_quoted(file.string()));
  throw InputError(file.string(), "", how);
}

// As load_plan, but that who gives a model or a job learns how to go on.
ResolvedPlan plan_in(const std::filesystem::path& file,
                     const std::function<void(const Plan&)>& before_schedule) {
  try {
    return load_plan(file, before_schedule);
  } catch (const InputError&) {
    if (!is_model(file)) {
      refuse_job(file);
      throw;
    }
  }
  throw InputError(file.string(), "",
                   fmt::format("is a model: make a plan of it, as weir plan {} -K 2 -M 4 -o "
                               "plan.json",
                               shell_quoted(file.string())));
}

}  // namespace

PlacedPlan load(const PlanSource& source, const Session& session) {
  if (const auto* plan = std::get_if<PlacedPlan>(&source)) return *plan;
  const auto& file = std::get<std::filesystem::path>(source);
  const auto say_need = [&](const Plan& plan) {
    say_need_of_schedule(plan.stages(), std::int64_t{plan.microbatches} * plan.slices, session);
  };
  PlacedPlan plan{plan_in(file, say_need), std::filesystem::absolute(file).parent_path(), false};
  note_remarks(plan.loaded, file, session);
  guard_named(plan, session);
  return plan;
}

PlannedTrace load_planned_trace(const TraceSource& source, const Session& session,
                                const ResolvedPlan* of) {
  if (const auto* file = std::get_if<std::filesystem::path>(&source)) {
    TracedPlan traced = load_traced_plan(*file, of);
    note_remarks(traced.plan, *file, session);
    PlacedPlan plan{std::move(traced.plan), std::filesystem::absolute(*file).parent_path()};
    guard_named(plan, session);
    return {std::move(traced.trace), std::move(plan)};
  }
  const auto* trace = std::get_if<PlannedTrace>(&source);
  if (trace == nullptr || !trace->plan)
    throw InputError("trace", "", "expected one with its plan, as a run or a forecast gives");
  return *trace;
}

bool is_given(const PlanSource& source) {
  const auto* file = std::get_if<std::filesystem::path>(&source);
  return file == nullptr || !file->empty();
}

std::string name_of(const PlanSource& source) {
  if (const auto* plan = std::get_if<PlacedPlan>(&source)) return summary(plan->loaded.plan);
  return std::get<std::filesystem::path>(source).string();
}

Costs load(const CostsSource& source, const Model& model, const Plan& plan, const Cluster& cluster,
           std::vector<Split> splits) {
  std::optional<Costs> known;
  const auto* file = std::get_if<std::filesystem::path>(&source);
  if (file != nullptr) known = load_costs(*file);
  if (const auto* costs = std::get_if<Costs>(&source)) known = *costs;
  // Measured or calibrated: times of one machine, taken as they are.
  if (known && known->basis != Basis::anchored) {
    if (cluster.kinds() == 1) return *std::move(known);
    throw InputError(
        known->file, "machine",
        fmt::format("{}: one machine's times; {} has {} kinds of nodes, which built-in "
                    "costs forecast, as they are or anchored",
                    known->machine, cluster.name, cluster.kinds()));
  }
  if (splits.empty()) splits.push_back(plan.split());
  Costs builtin = builtin_costs(model, plan.seq_length, plan.dtype, cluster, splits);
  if (!known) return builtin;
  // Factors learnt on one device mean nothing on another.
  if (known->anchor->device != cluster.device.name) {
    throw InputError(
        known->file, "anchor.device",
        fmt::format("is {}, the cluster has {}", known->anchor->device, cluster.device.name));
  }
  // Anchored: built-in costs of this plan, scaled by what was learnt.
  builtin.basis = Basis::anchored;
  builtin.origin = std::move(known->origin);
  set_anchor(builtin, *known->anchor);
  return builtin;
}

}  // namespace weir::app
