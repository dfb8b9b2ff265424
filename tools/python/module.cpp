// The extension `weir._weir`, all of whose names the package `weir` has: the commands as functions.
// Each takes the options of its command under the same names and returns the command's JSON as
// Python's own objects; plans, schedules, costs and traces are values of their own. Start with
// commands.cpp; plans.cpp, schedules.cpp and costs.cpp have the values; traces.cpp and tensors.cpp
// give theirs to NumPy, images.cpp and tensors.cpp take NumPy's.
// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <exception>
#include <map>
#include <new>
#include <utility>

#include "plan/text/ending.hpp"
#include "plan/text/quote.hpp"
#include "tools/python/bindings.hpp"
#include "tools/python/interrupt.hpp"

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
py::object& class_of(EndKind kind) {
  static std::map<EndKind, py::object>& classes = *new std::map<EndKind, py::object>;  // to the end
  return classes[kind];
}

// What Python's own functions and pybind11 raise stays what it is, and memory that ends is Python's
// MemoryError; all else ends as the command's table has it.
void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(std::move(thrown));
  } catch (const py::error_already_set&) {
    throw;
  } catch (const py::builtin_exception&) {
    throw;
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, "out of memory");
  } catch (...) {
    const Ending ending = ending_of(std::current_exception());
    PyErr_SetString(class_of(ending.kind).ptr(), python_words(in_one_line(ending.line)).c_str());
  }
}

void bind_errors(py::module_& m) {
  const auto named = [&](EndKind kind, const char* name, const py::handle& base, const char* doc) {
    const std::string full = std::string("weir.") + name;
    py::object made = py::reinterpret_steal<py::object>(
        PyErr_NewExceptionWithDoc(full.c_str(), doc, base.ptr(), nullptr));
    m.add_object(name, made);
    class_of(kind) = made;
    return made;
  };
  const py::object error = named(EndKind::bug, "Error", PyExc_Exception,
                                 "Whatever weir refuses; str() is one line: file, key, what was "
                                 "expected.");
  named(EndKind::bad_input, "InputError", error, "Bad input (exit code 3).");
  named(EndKind::usage, "UsageError", error, "Options that contradict (2).");
  named(EndKind::no_plan, "NoFeasiblePlan", error, "No plan satisfies all (4).");
  named(EndKind::missing, "MissingComponent", error, "Hardware not here (5).");
  named(EndKind::failed, "RunFailed", error, "The run stopped before its end (6).");
  py::register_exception_translator(&translate);
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
  weir::python::stop_at_exit();
  weir::python::bind_schedules(m);
  weir::python::bind_plans(m);
  weir::python::bind_costs(m);
  weir::python::bind_traces(m);
  weir::python::bind_images(m);
  weir::python::bind_tensors(m);
  weir::python::bind_searches(m);
  weir::python::bind_commands(m);
  m.attr("__name__") = own_name;
}
