// The extension `weir._weir`, all of whose names the package `weir` has: the commands as functions.
// Each takes the options of its command under the same names and returns the command's JSON as
// Python's own objects; plans, schedules, costs and traces are values of their own. Start with
// commands.cpp; plans.cpp, schedules.cpp and costs.cpp have the values; traces.cpp and tensors.cpp
// give theirs to NumPy, images.cpp and tensors.cpp take NumPy's.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <exception>
#include <map>
#include <new>
#include <string_view>
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

// Whether a character can stand in an option's name, or so close before one that it is none.
bool of_a_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-'; }

// How many bytes the option takes that begins there: "--memory-limit", "-o". 0: there is none.
std::size_t option_length(std::string_view line, std::size_t at) {
  const bool begins = at == 0 || (!of_a_word(line[at - 1]) && line[at - 1] != '_' &&
                                  line[at - 1] != '/' && line[at - 1] != '.');
  if (line[at] != '-' || !begins) return 0;
  std::size_t end = at;
  while (end < line.size() && of_a_word(line[end])) ++end;
  return end - at;
}

// How many bytes a line for a shell takes that begins there: between backquotes, or from "weir" and
// a command's name to what ends a clause. 0: there is none.
std::size_t shell_length(std::string_view line, std::size_t at) {
  constexpr std::string_view kWeir = "weir ";
  if (line[at] == '`') return std::min(line.find('`', at + 1), line.size() - 1) + 1 - at;
  const bool begins = at == 0 || line[at - 1] == ' ' || line[at - 1] == '(';
  const std::size_t word = at + kWeir.size();
  const bool runs = begins && line.substr(at).starts_with(kWeir) && word < line.size() &&
                    std::islower(static_cast<unsigned char>(line[word])) != 0;
  return runs ? std::min(line.find_first_of(",;()", at), line.size()) - at : 0;
}

std::string python_words(std::string_view line, const ArgumentNames& names) {
  std::string text;
  for (std::size_t at = 0; at < line.size();) {
    if (const std::size_t shell = shell_length(line, at); shell > 0) {
      text += line.substr(at, shell);
      at += shell;
      continue;
    }
    const std::size_t length = option_length(line, at);
    const auto name = names.find(line.substr(at, length));
    if (length > 0 && name != names.end()) {
      text += name->second;
    } else {
      text += line.substr(at, std::max<std::size_t>(length, 1));
    }
    at += std::max<std::size_t>(length, 1);
  }
  return text;
}

// One class for each exit code of the command; str(error) is the command's line without its "weir:
// ".
py::object& class_of(EndKind kind) {
  static std::map<EndKind, py::object>& classes = *new std::map<EndKind, py::object>;  // to the end
  return classes[kind];
}

// What Python's own functions and pybind11 raise stays what it is, and memory that ends is Python's
// MemoryError; all else ends as the command's table has it.
void set_error(std::exception_ptr thrown, const ArgumentNames& names) {
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
    PyErr_SetString(class_of(ending.kind).ptr(),
                    python_words(in_one_line(ending.line), names).c_str());
  }
}

// Of what has no options of a command.
void translate(std::exception_ptr thrown) { set_error(std::move(thrown), {}); }

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

void throw_to_python(const ArgumentNames& names) {
  set_error(std::current_exception(), names);
  throw py::error_already_set();
}

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
