// The extension `weir._weir`, all of whose names the package `weir` has: the commands as functions.
// Each takes the options of its command under the same names and returns the command's JSON as
// Python's own objects; plans, schedules, costs and traces are values of their own. Start with
// commands.cpp; plans.cpp, schedules.cpp and costs.cpp have the values; traces.cpp and tensors.cpp
// give theirs to NumPy, images.cpp and tensors.cpp take NumPy's.
// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <exception>

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

// What the options of the command are called in Python: "--memory-limit" is memory_limit.
std::string python_words(const std::string& line) {
  std::string text;
  for (std::size_t i = 0; i < line.size();) {
    const bool option = line.compare(i, 2, "--") == 0 && i + 2 < line.size() &&
                        std::islower(static_cast<unsigned char>(line[i + 2])) != 0 &&
                        (i == 0 || line[i - 1] != '-');
    if (!option) {
      text += line[i++];
      continue;
    }
    for (i += 2; i < line.size(); ++i) {
      const auto c = static_cast<unsigned char>(line[i]);
      if (std::isalnum(c) == 0 && c != '-') break;
      text += c == '-' ? '_' : line[i];
    }
  }
  return text;
}

// One class for each exit code of the command; str(error) is the command's line without its "weir:
// ", its options under their names here.
template <class Exception>
void bind_error(py::module_& m, const char* name, const py::object& base, const char* doc) {
  static auto* type = new py::exception<Exception>(m, name, base);  // until the process ends
  type->attr("__doc__") = doc;
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Exception& error) {
      (*type)(python_words(error.what()).c_str());
    }
  });
}

void bind_errors(py::module_& m) {
  const auto error = py::exception<std::runtime_error>(m, "Error");
  error.attr("__doc__") = "Whatever weir refuses; str() is one line: file, key, what was expected.";
  bind_error<InputError>(m, "InputError", error, "Bad input (exit code 3).");
  bind_error<UsageError>(m, "UsageError", error, "Options that contradict (2).");
  bind_error<NoFeasiblePlan>(m, "NoFeasiblePlan", error, "No plan satisfies all (4).");
  bind_error<MissingComponent>(m, "MissingComponent", error, "Hardware not here (5).");
  bind_error<RunFailed>(m, "RunFailed", error, "The run stopped before its end (6).");
}

}  // namespace
}  // namespace weir::python

PYBIND11_MODULE(_weir, m) {
  // What is defined here is the package's: weir.Plan, weir.commands.
  const py::object own_name = m.attr("__name__");
  m.attr("__name__") = "weir";
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
  weir::python::bind_images(m);
  weir::python::bind_tensors(m);
  weir::python::bind_commands(m);
  m.attr("__name__") = own_name;
}
