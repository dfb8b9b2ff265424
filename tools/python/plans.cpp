// Models and plans in Python.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "costmodel/layers/layer_key.hpp"
#include "plan/job/summary.hpp"
#include "tools/python/bindings.hpp"
#include "tools/report/page.hpp"
#include "tools/report/svg.hpp"

namespace py = pybind11;

namespace weir::python {
namespace {

// Says how a plan in an older version's words was read.
ResolvedPlan warned(ResolvedPlan plan, const std::filesystem::path& file) {
  for (const std::string& remark : plan.remarks) {
    const std::string line = file.string() + ": " + remark;
    if (PyErr_WarnEx(PyExc_UserWarning, line.c_str(), 1) != 0) throw py::error_already_set();
  }
  return plan;
}

PlacedPlan read_plan(const std::filesystem::path& file) {
  return {warned(load_plan(file), file), std::filesystem::absolute(file).parent_path(), false};
}

PlacedPlan from_dict(const py::dict& dict, const std::filesystem::path& folder) {
  PlanFile read = weir::read_plan(to_json(dict), "plan");
  ResolvedPlan resolved = resolve(read.plan, folder);
  resolved.remarks = std::move(read.remarks);
  return {warned(std::move(resolved), "plan"), std::filesystem::absolute(folder), false};
}

void save_moved(const PlacedPlan& plan, const std::filesystem::path& file) {
  save_plan(moved_to(plan, std::filesystem::absolute(file).parent_path()).plan, file);
}

std::vector<std::string> layer_keys(const PlacedPlan& placed) {
  const Plan& plan = placed.loaded.plan;
  std::vector<std::string> keys;
  for (const Layer& layer : placed.loaded.model.layers)
    keys.push_back(layer_key(layer, plan.seq_length, plan.dtype, plan.split()));
  return keys;
}

// First and last layer of each stage: "0-3, 4-7"; of an empty one "-".
std::string layers_by_stage(const PlacedPlan& placed) {
  std::vector<int> ends = placed.loaded.plan.boundaries;
  ends.push_back(static_cast<int>(placed.loaded.model.layers.size()));
  std::vector<std::string> stages;
  int first = 0;
  for (const int end : ends) {
    const std::string one = std::to_string(first);
    stages.push_back(end <= first       ? "-"
                     : end == first + 1 ? one
                                        : fmt::format("{}-{}", one, end - 1));
    first = end;
  }
  return fmt::format("{}", fmt::join(stages, ", "));
}

// What a notebook shows: the plan's main words, and its schedule drawn.
std::string plan_cell(const PlacedPlan& placed) {
  const Plan& plan = placed.loaded.plan;
  std::string rows;
  const auto row = [&rows](const char* name, const std::string& value) {
    rows += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", name, escape(value));
  };
  row("model", std::filesystem::path(plan.model_path).filename().string());
  row("ranks, K", std::to_string(plan.pp));
  if (plan.vpp > 1) row("stages a rank, v", std::to_string(plan.vpp));
  if (plan.devices_per_rank() > 1) {
    row("devices a rank",
        fmt::format("{}: tp {}, cp {}, dp {}", plan.devices_per_rank(), plan.tp, plan.cp, plan.dp));
  }
  row("micro-batches, M", fmt::format("{} of {} sample{}", plan.microbatches, plan.micro_batch_size,
                                      plan.micro_batch_size == 1 ? "" : "s"));
  row("samples a step", std::to_string(plan.global_batch_size()));
  row("sequence length", std::to_string(plan.seq_length));
  // In 8 bits products alone are: the rest is held as before.
  row("numbers", plan.fp8 == Fp8Recipe::none
                     ? std::string(to_string(plan.dtype))
                     : fmt::format("{}, products fp8 {}{}", to_string(plan.dtype),
                                   to_string(plan.fp8), plan.fp8_parameters ? " parameters" : ""));
  row("schedule", placed.loaded.schedule.name);
  row("re-materialisation", to_text(plan.recompute));
  row("layers by stage", layers_by_stage(placed));
  return fmt::format("<p><b>{}</b></p>\n{}{}", escape(summary(plan)), html_table(rows),
                     schedule_svg(placed.loaded.schedule).value_or(""));
}

void bind_plan_class(py::module_& m) {
  using P = PlacedPlan;
  py::class_<P>(m, "Plan", "Everything that must be known to run or to forecast a training step.")
      .def_property_readonly(
          "pp", [](const P& p) { return p.loaded.plan.pp; }, "Ranks, K.")
      .def_property_readonly(
          "vpp", [](const P& p) { return p.loaded.plan.vpp; }, "Stages a rank, v.")
      .def_property_readonly(
          "slices", [](const P& p) { return p.loaded.plan.slices; }, "Slices of a sequence.")
      .def_property_readonly(
          "microbatches", [](const P& p) { return p.loaded.plan.microbatches; }, "M.")
      .def_property_readonly(
          "micro_batch_size", [](const P& p) { return p.loaded.plan.micro_batch_size; }, "b.")
      .def_property_readonly(
          "global_batch_size", [](const P& p) { return p.loaded.plan.global_batch_size(); },
          "Samples a step.")
      .def_property_readonly(
          "seq_length", [](const P& p) { return p.loaded.plan.seq_length; }, "Tokens of a sample.")
      .def_property_readonly(
          "boundaries", [](const P& p) { return p.loaded.plan.boundaries; },
          "First layers of stages 1...")
      .def_property_readonly("layer_keys", &layer_keys, "What costs files call each layer's work.")
      .def_property_readonly(
          "schedule", [](const P& p) { return p.loaded.schedule; },
          "The order that its ranks keep to.")
      .def(
          "to_dict", [](const P& p) { return from_json(weir::to_json(p.loaded.plan)); },
          "As weir.plan/1.")
      .def_static("from_dict", &from_dict, py::arg("plan"), py::arg("folder") = ".",
                  "A plan of a sweep's row; its relative paths start from `folder`.")
      .def("save", &save_moved, py::arg("file"),
           "Writes the plan file, and beside it, as CSV, a schedule that came from a function.")
      .def(
          "__eq__", [](const P& a, const P& b) { return a.loaded.plan == b.loaded.plan; },
          py::is_operator())
      .def("_repr_html_", &plan_cell)
      .def("__repr__", [](const P& p) { return "<weir.Plan " + summary(p.loaded.plan) + ">"; })
      .def("__str__", [](const P& p) { return summary(p.loaded.plan); });
}

}  // namespace

void bind_plans(py::module_& m) {
  bind_plan_class(m);
  m.def("load_plan", &read_plan, py::arg("file"),
        "Reads a plan file with its model and its schedule.");
}

}  // namespace weir::python
