// The Python module `weir`: the commands as functions. Each takes the options of its command under
// the same names and returns the command's JSON as Python's own objects; plans, schedules, costs
// and traces are values of their own. Start with bindings.hpp; plans.cpp and schedules.cpp make
// what engines.cpp forecasts and runs, traces.cpp gives it to NumPy.
// SPDX-License-Identifier: Apache-2.0
#include "plan/words/error.hpp"
#include "tools/python/bindings.hpp"

namespace py = pybind11;

namespace weir::python {

py::object from_json(const std::string& text) {
  return py::module_::import("json").attr("loads")(text);
}

std::string to_json(const py::handle& object) {
  return py::module_::import("json").attr("dumps")(object).cast<std::string>();
}

namespace {

// One class for each exit code of the command; str(error) is the command's line without its "weir:
// ".
void bind_errors(py::module_& m) {
  const auto error = py::exception<std::runtime_error>(m, "Error");
  error.attr("__doc__") = "Whatever weir refuses; str() is one line: file, key, what was expected.";
  py::register_exception<InputError>(m, "InputError", error).attr("__doc__") =
      "Bad input (exit code 3).";
  py::register_exception<UsageError>(m, "UsageError", error).attr("__doc__") =
      "Options that contradict (2).";
  py::register_exception<NoFeasiblePlan>(m, "NoFeasiblePlan", error).attr("__doc__") =
      "No plan satisfies all (4).";
  py::register_exception<MissingComponent>(m, "MissingComponent", error).attr("__doc__") =
      "Hardware not here (5).";
  py::register_exception<RunFailed>(m, "RunFailed", error).attr("__doc__") =
      "The run stopped before its end (6).";
}

}  // namespace
}  // namespace weir::python

PYBIND11_MODULE(weir, m) {
  m.doc() =
      "Forecasts pipeline-parallel training, runs the plan, and holds the one against the "
      "other.\n\n"
      "    plan = weir.plan('config.json', pp=2, microbatches=8)\n"
      "    forecast, predicted = weir.simulate(plan)\n"
      "    result, measured = weir.run(plan, steps=5)\n"
      "    weir.compare(predicted, measured)['waterfall']";
  m.attr("__version__") = WEIR_VERSION;
  weir::python::bind_errors(m);
  weir::python::bind_schedules(m);
  weir::python::bind_plans(m);
  weir::python::bind_costs(m);
  weir::python::bind_traces(m);
  weir::python::bind_engines(m);
}
