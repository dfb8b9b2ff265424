// The Python module's own types: values of the house with what Python needs beside them. module.cpp
// is where to start.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "costmodel/table/costs.hpp"
#include "plan/job/resolve.hpp"
#include "plan/schedule/schedule.hpp"
#include "tools/app/schedule/schedule_source.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/app/shared/source.hpp"
#include "traces/trace.hpp"

namespace weir::python {

using app::moved_to;
using app::PlacedPlan;
using app::PlannedTrace;

// What the options of a command are called as arguments of its function, by the names that messages
// have: "memory_limit" of "--memory-limit", "output" of "-o".
using ArgumentNames = std::map<std::string, std::string, std::less<>>;

// Within a catch of a function: Python's error for what was caught, the function's options in its
// line under their names here. What is for a shell, between backquotes or behind "weir COMMAND",
// stays.
[[noreturn]] void throw_to_python(const ArgumentNames& names);

// JSON as Python's own objects, and back.
[[nodiscard]] pybind11::object from_json(const std::string& text);
[[nodiscard]] std::string to_json(const pybind11::handle& object);

// A Python function (K, M, v) -> a list of action names for each rank.
[[nodiscard]] app::ScheduleFunction schedule_function(const pybind11::object& function);

// A step's timeline, as pictures of the command have it: what a notebook shows of an object.
[[nodiscard]] std::string timeline_svg(const Trace& trace, const std::string& title);

// An order's, by F = I = W = 1 ms, as `time` has them where nothing is said; nothing of one that
// deadlocks.
[[nodiscard]] std::optional<std::string> schedule_svg(const Schedule& schedule);

void bind_schedules(pybind11::module_& module);
void bind_plans(pybind11::module_& module);
void bind_costs(pybind11::module_& module);
void bind_traces(pybind11::module_& module);
void bind_images(pybind11::module_& module);
void bind_tensors(pybind11::module_& module);
void bind_searches(pybind11::module_& module);
void bind_commands(pybind11::module_& module);

}  // namespace weir::python
