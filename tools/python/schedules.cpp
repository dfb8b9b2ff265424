// Schedules in Python: by name, from a file, or from a function, all through the one validator.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "costmodel/table/given_times.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast/forecast_json.hpp"
#include "tools/app/schedule/schedule.hpp"
#include "tools/app/schedule/timed_schedule.hpp"
#include "tools/python/bindings.hpp"
#include "tools/python/use_cases.hpp"

namespace py = pybind11;

namespace weir::python {
namespace {

// A function's name as messages and files can have it.
std::string name_of(const py::object& function) {
  std::string name =
      py::str(py::getattr(function, "__name__", py::str("schedule"))).cast<std::string>();
  std::erase_if(name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '_'; });
  return name.empty() ? "schedule" : name;
}

std::vector<std::vector<std::string>> rows_of(const py::object& made, const std::string& name) {
  try {
    return made.cast<std::vector<std::vector<std::string>>>();
  } catch (const py::cast_error&) {
    throw InputError(name, "",
                     "expected a list of action names for each rank, as [[\"0F0\", \"0B0\"], ...]");
  }
}

// A line a rank; what is no list of action names is refused in the function's name.
std::string csv_of(const py::object& made, const std::string& name) {
  std::string csv;
  const auto rows = rows_of(made, name);
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    if (rows[rank].empty())
      throw InputError(name, fmt::format("row {}", rank + 1), "has no actions");
    for (const std::string& action : rows[rank]) {
      if (action.find_first_of(",\r\n") != std::string::npos)
        throw InputError(name, fmt::format("row {}", rank + 1),
                         "expected one action a name, as 2F0");
      csv += action + ",";
    }
    csv.back() = '\n';
  }
  return csv;
}

std::vector<std::vector<std::string>> names(const Schedule& schedule) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& order : schedule.order) {
    rows.emplace_back();
    for (const Action& action : order) rows.back().push_back(to_string(action));
  }
  return rows;
}

Seconds duration(double seconds, const char* key) {
  if (!std::isfinite(seconds) || seconds < 0)
    throw InputError("time", key, "expected a duration of at least 0");
  return Seconds(seconds);
}

TimedSchedule timed_by(const Schedule& schedule, const UniformTimes& times) {
  return time_schedule(schedule, uniform_table(schedule.shape, times), TransferMode::buffered);
}

py::tuple time(const Schedule& schedule, double f_s, double i_s, double w_s, double latency_s,
               std::optional<double> s_s, std::optional<double> t_s) {
  UniformTimes times{duration(f_s, "f_s"), duration(i_s, "i_s"), duration(w_s, "w_s"),
                     duration(latency_s, "latency_s")};
  if ((s_s || t_s) && schedule.shape.shards() == 0)
    throw UsageError("s_s, t_s: of schedules that divide the vocabulary");
  if (s_s) times.s = duration(*s_s, "s_s");
  if (t_s) times.t = duration(*t_s, "t_s");
  TimedSchedule timed = timed_by(schedule, times);
  return py::make_tuple(from_json(weir::to_json(timed.forecast)),
                        PlannedTrace{std::move(timed.trace), {}});
}

// As the command lists them.
py::object list_generators() { return to_python(app::to_json(app::ScheduleResult{}))["schedules"]; }

}  // namespace

app::ScheduleFunction schedule_function(const py::object& function) {
  const std::string name = name_of(function);
  // The engines run, copy and drop this without Python's lock: what they copy is a pointer, and the
  // last of them takes the lock.
  const std::shared_ptr<py::object> kept(new py::object(function), [](const py::object* last) {
    const py::gil_scoped_acquire python;
    delete last;
  });
  return {name, [kept, name](int ranks, int microbatches, int chunks) {
            const py::gil_scoped_acquire python;
            return csv_of((*kept)(ranks, microbatches, chunks), name);
          }};
}

void bind_schedules(py::module_& m) {
  py::class_<Schedule>(m, "Schedule", "For each rank, the order of its compute actions.")
      .def_readonly("name", &Schedule::name, "As it is published, or its file's.")
      .def_property_readonly(
          "pp", [](const Schedule& s) { return s.shape.ranks; }, "Ranks, K.")
      .def_property_readonly(
          "stages", [](const Schedule& s) { return s.shape.stages; }, "Stages of one replica, K v.")
      .def_property_readonly(
          "microbatches", [](const Schedule& s) { return s.shape.microbatches; }, "M.")
      .def_property_readonly("order", &names, "For each rank, the names of its actions.")
      .def("csv", py::overload_cast<const Schedule&>(&to_csv), "As text in PyTorch's dialect.")
      .def(
          "save",
          [](const Schedule& s, const std::filesystem::path& file) {
            write_file_atomically(file, to_csv(s));
          },
          py::arg("file"), "Writes it as CSV.")
      .def("time", &time, py::arg("f_s") = 1e-3, py::arg("i_s") = 1e-3, py::arg("w_s") = 1e-3,
           py::arg("latency_s") = 0.0, py::arg("s_s") = py::none(), py::arg("t_s") = py::none(),
           "(forecast, trace) by given durations of a rank's F, I and W for one micro-batch, and "
           "of S and T where the vocabulary is divided, as weir schedule --uniform.")
      .def(
          "__eq__", [](const Schedule& a, const Schedule& b) { return a == b; }, py::is_operator())
      .def("_repr_svg_", &schedule_svg)
      .def("__repr__", [](const Schedule& s) {
        return fmt::format("<weir.Schedule {}: K = {}, {} stages, M = {}>", s.name, s.shape.ranks,
                           s.shape.stages, s.shape.microbatches);
      });
  m.def("schedules", &list_generators, "The published schedules with their sources and formulas.");
}

std::optional<std::string> schedule_svg(const Schedule& schedule) {
  constexpr Seconds kEach(1e-3);
  try {
    return timeline_svg(timed_by(schedule, {kEach, kEach, kEach, Seconds(0)}).trace, schedule.name);
  } catch (const NoFeasiblePlan&) {
    return std::nullopt;
  }
}

}  // namespace weir::python
