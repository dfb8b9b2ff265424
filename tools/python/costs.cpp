// Costs in Python: measured by `profile`, refined by `calibrate`, judged by `evaluate`.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/costs.hpp"

#include <fmt/format.h>

#include "costmodel/fit/calibrate.hpp"
#include "costmodel/table/builtin.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/words/error.hpp"
#include "tools/python/bindings.hpp"
#include "tools/weir/evaluation.hpp"
#include "tools/weir/host.hpp"
#include "tools/weir/profiling.hpp"

namespace py = pybind11;

namespace weir::python {
namespace {

Costs profile(const std::filesystem::path& model_file, const std::vector<int>& sizes,
              std::optional<std::int64_t> seq_length, const std::string& dtype,
              const std::string& attention, std::uint64_t seed) {
  for (const int size : sizes) {
    if (size < 1) throw UsageError("profile: micro_batch_sizes are at least 1");
  }
  if (sizes.empty()) throw UsageError("profile: expected at least one of micro_batch_sizes");
  const PlanOptions options{
      .model = model_file, .seq_length = seq_length, .dtype = dtype, .attention = attention};
  const Model model = load_model(options);
  const Plan plan = base_plan(options, seed, model);
  return profile_machine(model, plan, {.micro_batch_sizes = sizes}, available_backends());
}

// (costs, quality of each fitted factor)
py::tuple fit(const Costs& costs, const std::vector<const PlannedTrace*>& traces,
              const OptionalPath& cluster) {
  std::vector<CalibrationRun> runs;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (traces[i] == nullptr || !traces[i]->plan ||
        traces[i]->trace.origin != TraceOrigin::measured)
      throw InputError("calibrate", fmt::format("traces[{}]", i),
                       "expected a measured trace, as weir.run returns");
    runs.push_back({&traces[i]->plan->loaded, &traces[i]->trace});
  }
  if (runs.empty()) throw UsageError("calibrate: expected at least one trace");
  Calibration result = calibrate(costs, runs, cluster_or_host(cluster));
  py::list quality;
  for (const FitQuality& q : result.quality) {
    py::dict row;
    row["kind"] = q.kind;
    row["factor"] = q.factor;
    row["observations"] = q.observations;
    row["median_residual"] = q.median_residual;
    quality.append(row);
  }
  return py::make_tuple(std::move(result.costs), quality);
}

// What evaluate() takes for granted, as the command's options check it.
void check(const EvaluateOptions& o) {
  if (o.global_batch_size < 1 || o.fit < 1 || o.interval < 1 || o.held_out < 1 || o.rounds < 1)
    throw UsageError(
        "evaluate: global_batch_size, fit, interval, held_out and rounds are at least 1");
}

py::object judge(const EvaluateOptions& options, std::uint64_t seed) {
  check(options);
  std::string json;
  {
    const py::gil_scoped_release others_may_run;
    json = evaluate(options, seed);
  }
  return from_json(json);
}

}  // namespace

Costs costs_for(const CostsOrFile& costs, const Model& model, const Plan& plan,
                const Cluster& cluster) {
  if (!costs) return builtin_costs(model, plan.seq_length, plan.dtype, cluster);
  if (const auto* file = std::get_if<std::filesystem::path>(&*costs)) return load_costs(*file);
  return std::get<Costs>(*costs);
}

void bind_costs(py::module_& m) {
  py::class_<Costs>(m, "Costs", "How long layers, messages and updates take on one machine.")
      .def_property_readonly("basis", [](const Costs& c) { return to_string(c.basis); })
      .def_readonly("machine", &Costs::machine)
      .def_readonly("origin", &Costs::origin, "How and when it was obtained.")
      .def(
          "save", [](const Costs& c, const std::filesystem::path& file) { save_costs(c, file); },
          py::arg("file"))
      .def("__repr__", [](const Costs& c) {
        return fmt::format("<weir.Costs {}: {}, {}>", to_string(c.basis), c.machine, c.origin);
      });
  m.def("load_costs", &load_costs, py::arg("file"), "Reads a costs file.");
  m.def("profile", &profile, py::arg("model"),
        py::arg("micro_batch_sizes") = std::vector<int>{1, 2, 4, 8},
        py::arg("seq_length") = py::none(), py::arg("dtype") = "fp32",
        py::arg("attention") = "unfused", py::arg("seed") = 1,
        py::call_guard<py::gil_scoped_release>(),
        "Measures the model's layers with every core busy; Costs.");
  m.def("calibrate", &fit, py::arg("costs"), py::arg("traces"), py::arg("cluster") = py::none(),
        "Fits costs to measured traces: (Costs, quality of each factor).");
  m.def(
      "evaluate",
      [](const std::filesystem::path& model, int global_batch_size, int fit, int interval,
         int held_out, int rounds, const std::filesystem::path& output,
         std::optional<std::int64_t> seq_length, const std::string& attention, std::uint64_t seed) {
        return judge({.common = {.model = model, .seq_length = seq_length, .attention = attention},
                      .global_batch_size = global_batch_size,
                      .fit = fit,
                      .interval = interval,
                      .held_out = held_out,
                      .rounds = rounds,
                      .output = output},
                     seed);
      },
      py::arg("model"), py::kw_only(), py::arg("global_batch_size") = 8, py::arg("fit") = 8,
      py::arg("interval") = 12, py::arg("held_out") = 20, py::arg("rounds") = 5,
      py::arg("output") = "weir-out", py::arg("seq_length") = py::none(),
      py::arg("attention") = "unfused", py::arg("seed") = 1,
      "Runs random held-out plans here and returns the forecaster's error, weir.evaluation/1. Into "
      "the folder `output` "
      "go predictions.json (before anything of it is run), costs.json, evaluation.json, "
      "evaluation.svg with its "
      "CSV, and report.html.");
}

}  // namespace weir::python
