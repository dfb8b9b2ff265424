// Costs in Python.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/costs.hpp"

#include <fmt/format.h>

#include "tools/app/machine/watch.hpp"
#include "tools/python/bindings.hpp"
#include "tools/python/use_cases.hpp"

namespace py = pybind11;

namespace weir::python {
void bind_costs(py::module_& m) {
  py::class_<Costs>(m, "Costs", "How long layers, messages and updates take on one machine.")
      .def_property_readonly(
          "basis", [](const Costs& c) { return to_string(c.basis); },
          "'builtin', 'measured' or what else they stand on.")
      .def_readonly("machine", &Costs::machine, "What they were measured on.")
      .def_readonly("origin", &Costs::origin, "How and when it was obtained.")
      .def(
          "save", [](const Costs& c, const std::filesystem::path& file) { save_costs(c, file); },
          py::arg("file"), "Writes the costs file.")
      .def("__repr__", [](const Costs& c) {
        return fmt::format("<weir.Costs {}: {}, {}>", to_string(c.basis), c.machine, c.origin);
      });
  py::class_<app::Watch>(m, "Watch", "What other work takes from a measurement, since it was made.")
      .def(py::init<>())
      .def(
          "until_now", [](const app::Watch& w) { return to_python(to_json(w.until_now())); },
          "The object `disturbance` of costs and results: of this process and the children that "
          "it has waited for.");
  m.def("load_costs", &load_costs, py::arg("file"), "Reads a costs file.");
}

}  // namespace weir::python
