// The Python module's own types: values of the house with what Python needs beside them. module.cpp
// is where to start.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "costmodel/table/costs.hpp"
#include "plan/job/resolve.hpp"
#include "plan/schedule/schedule.hpp"
#include "tools/weir/options.hpp"
#include "tools/weir/schedule_source.hpp"
#include "traces/trace.hpp"

namespace weir::python {

// A plan with what it names, and the folder its relative paths start from.
struct PlacedPlan {
  ResolvedPlan loaded;
  std::filesystem::path folder;
  bool schedule_in_memory = false;  // no file has it yet; `moved_to` writes one
};

// A trace with the plan it is of; none where a schedule was timed without a model.
struct PlannedTrace {
  Trace trace;
  std::optional<PlacedPlan> plan;
};

// Arguments that may be one or several, a thing or the file it is in.
using Numbers = std::variant<int, std::vector<int>>;
using Words = std::variant<std::string, std::vector<std::string>>;
using CostsOrFile = std::optional<std::variant<Costs, std::filesystem::path>>;
using OptionalPath = std::optional<std::filesystem::path>;

// JSON as Python's own objects, and back.
[[nodiscard]] pybind11::object from_json(const std::string& text);
[[nodiscard]] std::string to_json(const pybind11::handle& object);

// The costs given, those of the file given, or the built-in ones.
[[nodiscard]] Costs costs_for(const CostsOrFile& costs, const Model& model, const Plan& plan,
                              const Cluster& cluster);

// A schedule by name, from a CSV file or program, or made by a Python function (K, M, v) -> a list
// of action names for each rank; K, M and v as in `request`, whose own name is not looked at.
// Judged. Throws InputError or UsageError.
[[nodiscard]] Schedule schedule_from(const pybind11::object& source, ScheduleSource request);

// The plan for files in `folder`: paths relative to it, a schedule that was in memory written there
// as CSV.
[[nodiscard]] ResolvedPlan moved_to(const PlacedPlan& plan, const std::filesystem::path& folder);

void bind_schedules(pybind11::module_& module);
void bind_plans(pybind11::module_& module);
void bind_costs(pybind11::module_& module);
void bind_traces(pybind11::module_& module);
void bind_engines(pybind11::module_& module);

}  // namespace weir::python
