// Models and plans in Python.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cctype>

#include "plan/model/readers/model_import.hpp"
#include "plan/program/lower.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "sim/search/balance.hpp"
#include "tools/python/bindings.hpp"
#include "tools/weir/host.hpp"
#include "tools/weir/records_json.hpp"

namespace py = pybind11;

namespace weir::python {
namespace {

// What `weir.plan` is asked for beside PlanOptions.
struct PlanRequest {
  PlanOptions common;
  int pp = 1, microbatches = 1, micro_batch_size = 1, vpp = 1;
  std::string recompute, recompute_microbatches;
  std::optional<std::vector<int>> boundaries;
  std::uint64_t seed = 1;
};

// What a plan file says of this schedule: a generator's name, or a CSV file.
std::string word_for(const Schedule& schedule, const ScheduleRequest& request) {
  if (schedule.name.ends_with(".csv")) return schedule.name;
  const auto made = make_schedule(schedule.name, request);
  const auto* same = std::get_if<Schedule>(&made);
  if (same != nullptr && *same == schedule) return schedule.name;
  std::string file = schedule.name;  // a function's name, or a program's command line
  std::erase_if(file, [](unsigned char c) { return std::isalnum(c) == 0 && c != '_'; });
  return file + ".csv";
}

// Every range and word that a plan file must keep to, with the same messages.
Plan in_range(const Plan& plan) { return parse_plan(weir::to_json(plan), "plan"); }

PlacedPlan make_plan(const PlanRequest& r, const py::object& source, const CostsOrFile& costs) {
  const Model model = load_model(r.common);
  Plan plan = base_plan(r.common, r.seed, model);
  plan.pp = r.pp;
  plan.vpp = r.vpp;
  plan.microbatches = r.microbatches;
  plan.micro_batch_size = r.micro_batch_size;
  plan.recompute = parse_recompute(r.recompute, r.recompute_microbatches);
  plan = in_range(plan);
  const Schedule schedule = schedule_from(source, {"", plan.pp, plan.vpp, plan.microbatches});
  if (!r.common.slots) plan.slots = fewest_slots(schedule, 2);
  plan.schedule = word_for(schedule, {plan.pp, plan.vpp, plan.microbatches});
  if (r.boundaries) {
    plan.boundaries = *r.boundaries;
  } else if (plan.stages() <=
             static_cast<int>(model.layers.size())) {  // otherwise resolve() says why not
    const Cluster cluster = host_cluster();
    plan.boundaries =
        balanced_boundaries(model, plan, costs_for(costs, model, plan, cluster), cluster);
  }
  const auto folder = std::filesystem::current_path();
  return {resolve(plan, folder, schedule), folder,
          plan.schedule.ends_with(".csv") && plan.schedule != schedule.name};
}

PlacedPlan read_plan(const std::filesystem::path& file) {
  return {load_plan(file), std::filesystem::absolute(file).parent_path(), false};
}

PlacedPlan from_dict(const py::dict& dict, const std::filesystem::path& folder) {
  return {resolve(parse_plan(to_json(dict), "plan"), folder), std::filesystem::absolute(folder),
          false};
}

void save(const PlacedPlan& plan, const std::filesystem::path& file) {
  save_plan(moved_to(plan, std::filesystem::absolute(file).parent_path()).plan, file);
}

py::object describe_model(const std::filesystem::path& file, std::optional<std::int64_t> seq_length,
                          const std::string& dtype, const std::string& attention) {
  const PlanOptions options{
      .model = file, .seq_length = seq_length, .dtype = dtype, .attention = attention};
  const Model model = load_model(options);
  const Plan plan = in_range(base_plan(options, 1, model));
  return from_json(weir::to_json(model, plan.seq_length, plan.dtype));
}

void bind_plan_class(py::module_& m) {
  using P = PlacedPlan;
  py::class_<P>(m, "Plan", "Everything that must be known to run or to forecast a training step.")
      .def_property_readonly(
          "pp", [](const P& p) { return p.loaded.plan.pp; }, "Ranks, K.")
      .def_property_readonly(
          "vpp", [](const P& p) { return p.loaded.plan.vpp; }, "Stages a rank, v.")
      .def_property_readonly(
          "microbatches", [](const P& p) { return p.loaded.plan.microbatches; }, "M.")
      .def_property_readonly(
          "micro_batch_size", [](const P& p) { return p.loaded.plan.micro_batch_size; }, "b.")
      .def_property_readonly("global_batch_size",
                             [](const P& p) { return p.loaded.plan.global_batch_size(); })
      .def_property_readonly("seq_length", [](const P& p) { return p.loaded.plan.seq_length; })
      .def_property_readonly(
          "boundaries", [](const P& p) { return p.loaded.plan.boundaries; },
          "First layers of stages 1...")
      .def_property_readonly("schedule", [](const P& p) { return p.loaded.schedule; })
      .def(
          "to_dict", [](const P& p) { return from_json(weir::to_json(p.loaded.plan)); },
          "As weir.plan/1.")
      .def_static("from_dict", &from_dict, py::arg("plan"), py::arg("folder") = ".",
                  "A plan of a sweep's row; its relative paths start from `folder`.")
      .def("save", &save, py::arg("file"),
           "Writes the plan file, and beside it, as CSV, a schedule that came from a function.")
      .def(
          "__eq__", [](const P& a, const P& b) { return a.loaded.plan == b.loaded.plan; },
          py::is_operator())
      .def("__repr__", [](const P& p) { return "<weir.Plan " + summary(p.loaded.plan) + ">"; })
      .def("__str__", [](const P& p) { return summary(p.loaded.plan); });
}

}  // namespace

ResolvedPlan moved_to(const PlacedPlan& plan, const std::filesystem::path& folder) {
  ResolvedPlan moved = plan.loaded;
  moved.plan = rebased(moved.plan, plan.folder, folder);
  if (!plan.schedule_in_memory) return moved;
  moved.plan.schedule = plan.loaded.plan.schedule;
  const auto file = folder / moved.plan.schedule;
  const std::string csv = to_csv(moved.schedule);
  if (std::filesystem::exists(file) && read_text_file(file) != csv)
    throw InputError(file.string(), "",
                     "is another schedule; save to another folder, or rename the function");
  write_file_atomically(file, csv);
  return moved;
}

void bind_plans(py::module_& m) {
  bind_plan_class(m);
  m.def("model", &describe_model, py::arg("model"), py::arg("seq_length") = py::none(),
        py::arg("dtype") = "fp32", py::arg("attention") = "unfused",
        "Layers, parameters, FLOPs and bytes of a Hugging Face config.json, a layer list or a "
        "layers.csv; weir.model/1.");
  m.def("load_plan", &read_plan, py::arg("file"),
        "Reads a plan file with its model and its schedule.");
  m.def(
      "plan",
      [](const std::filesystem::path& model, int pp, int microbatches, int micro_batch_size,
         int vpp, const py::object& schedule, const std::string& recompute,
         const std::string& recompute_microbatches,
         const std::optional<std::vector<int>>& boundaries, std::optional<std::int64_t> seq_length,
         const std::string& dtype, const std::string& attention, const std::string& optimizer,
         double learning_rate, std::optional<int> slots, std::uint64_t seed,
         const std::string& note, const CostsOrFile& costs) {
        const PlanOptions common{model,     seq_length,    dtype, attention,
                                 optimizer, learning_rate, slots, note};
        return make_plan({common, pp, microbatches, micro_batch_size, vpp, recompute,
                          recompute_microbatches, boundaries, seed},
                         schedule, costs);
      },
      py::arg("model"), py::kw_only(), py::arg("pp") = 1, py::arg("microbatches") = 1,
      py::arg("micro_batch_size") = 1, py::arg("vpp") = 1, py::arg("schedule") = "1f1b",
      py::arg("recompute") = "none", py::arg("recompute_microbatches") = "",
      py::arg("boundaries") = py::none(), py::arg("seq_length") = py::none(),
      py::arg("dtype") = "fp32", py::arg("attention") = "unfused", py::arg("optimizer") = "adamw",
      py::arg("learning_rate") = 1e-3, py::arg("slots") = py::none(), py::arg("seed") = 1,
      py::arg("note") = "", py::arg("costs") = py::none(),
      "A plan by hand, with the options of the command. `schedule` is a name, a CSV file, a "
      "Schedule, or a function "
      "(K, M, v); without `boundaries` the stages are balanced exactly by `costs`.");
}

}  // namespace weir::python
