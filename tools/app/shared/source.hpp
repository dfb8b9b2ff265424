// Where a request's plans, costs, schedules and traces come from: a file, or a thing in memory. The
// command gives files, the Python module either.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "plan/job/cluster.hpp"
#include "plan/job/resolve.hpp"
#include "plan/schedule/schedule.hpp"
#include "tools/app/shared/session.hpp"
#include "traces/trace.hpp"

namespace weir::app {

// Several words, "a,b" on the command line.
struct Words {
  std::vector<std::string> words;
};

// A plan with what it names, and the folder its relative paths start from.
struct PlacedPlan {
  ResolvedPlan loaded;
  std::filesystem::path folder;
  bool schedule_in_memory = false;  // no file has it yet; `moved_to` writes one
};
// The plan for files in `folder`: paths relative to it, a schedule that was in memory written there
// as CSV. Throws InputError where another schedule is in its place.
[[nodiscard]] ResolvedPlan moved_to(const PlacedPlan& plan, const std::filesystem::path& folder);

// Equal but for where their files lie, with the same order of actions.
[[nodiscard]] bool same_plan(const ResolvedPlan& a, const ResolvedPlan& b);

using PlanSource = std::variant<std::filesystem::path, PlacedPlan>;
// A plan of a file: its model and its schedule are guarded with it.
[[nodiscard]] PlacedPlan load(const PlanSource& source, const Session& session);
// Whether a request has one: no file has no name.
[[nodiscard]] bool is_given(const PlanSource& source);
// The file's name, or the plan in short.
[[nodiscard]] std::string name_of(const PlanSource& source);

// Nothing: the built-in costs of the cluster's device. Anchored ones are those with their factors;
// InputError where they are another device's. `splits`: ways to divide layers that the costs shall
// know; none: the plan's.
using CostsSource = std::variant<std::monostate, std::filesystem::path, Costs>;
[[nodiscard]] Costs load(const CostsSource& source, const Model& model, const Plan& plan,
                         const Cluster& cluster, std::vector<Split> splits = {});

// A user's own function (K, M, v) that gives a schedule as CSV.
struct ScheduleFunction {
  std::string name;
  std::function<std::string(int ranks, int microbatches, int chunks)> csv;
};
// A generator's name, a CSV file or "exec:COMMAND"; or a schedule or a function.
using ScheduleChoice = std::variant<std::string, Schedule, ScheduleFunction>;

// A trace with the plan it is of; none where a schedule was timed without a model.
struct PlannedTrace {
  Trace trace;
  std::optional<PlacedPlan> plan;
};
// A file may be a trace's or a plan's.
using TraceSource = std::variant<std::filesystem::path, PlannedTrace, PlacedPlan>;
// A trace with its plan. Throws InputError for one without, or for a plan. A trace of the plan `of`
// may lie elsewhere than where it was written.
[[nodiscard]] PlannedTrace load_planned_trace(const TraceSource& source, const Session& session,
                                              const ResolvedPlan* of = nullptr);

// The files that a plan names are not written over from here on.
void guard_named(const PlacedPlan& plan, const Session& session);

// What the plan's file says in an older version's words, and how it was read.
void note_remarks(const ResolvedPlan& plan, const std::filesystem::path& file,
                  const Session& session);

}  // namespace weir::app
