// The engines in Python: simulate, sweep, run and compare.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "costmodel/table/stage_costs.hpp"
#include "exec/device/cores.hpp"
#include "exec/run/run.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/words/error.hpp"
#include "sim/forecast.hpp"
#include "sim/forecast_json.hpp"
#include "sim/search/sweep.hpp"
#include "sim/search/sweep_json.hpp"
#include "tools/app/builtin_accuracy.hpp"
#include "tools/python/bindings.hpp"
#include "tools/weir/host.hpp"
#include "tools/weir/records_json.hpp"
#include "tools/weir/sweep_limits.hpp"
#include "traces/compare.hpp"

namespace py = pybind11;

namespace weir::python {
namespace {

std::vector<int> numbers(const Numbers& given, const char* key) {
  std::vector<int> list = std::holds_alternative<int>(given)
                              ? std::vector<int>{std::get<int>(given)}
                              : std::get<std::vector<int>>(given);
  for (const int number : list) {
    if (number < 1)
      throw UsageError(fmt::format("{} {}: expected numbers of at least 1", key, number));
  }
  if (list.empty()) throw UsageError(fmt::format("{}: expected at least one number", key));
  return list;
}

std::vector<std::string> words(const Words& given) {
  if (const auto* one = std::get_if<std::string>(&given)) return {*one};
  return std::get<std::vector<std::string>>(given);
}

// (forecast, trace)
py::tuple simulate(const PlacedPlan& plan, const CostsOrFile& costs,
                   const OptionalPath& cluster_file, const std::string& memory_limit) {
  ForecastResult result;
  std::string json;
  {
    const py::gil_scoped_release others_may_run;
    const Cluster cluster = cluster_or_host(cluster_file);
    const Costs used = costs_for(costs, plan.loaded.model, plan.loaded.plan, cluster);
    result = forecast(plan.loaded, used, cluster);
    if (!memory_limit.empty()) {
      result.forecast.memory_limit = parse_memory(memory_limit, "memory_limit");
    } else if (cluster_file) {
      result.forecast.memory_limit = cluster.device.memory;
    }
    json = weir::to_json(result.forecast);
    if (used.basis == Basis::builtin)
      json = with_accuracy(nlohmann::ordered_json::parse(json), cluster.device.name).dump();
  }
  if (!result.forecast.fits()) {
    throw NoFeasiblePlan(fmt::format(
        "{} needs {} on its fullest device, the limit is {}", summary(plan.loaded.plan),
        format_bytes(result.forecast.peak_memory()), format_bytes(*result.forecast.memory_limit)));
  }
  return py::make_tuple(from_json(json), PlannedTrace{std::move(result.trace), plan});
}

// What a sweep varies, as it came from Python.
struct SweepArguments {
  Numbers pp, vpp;
  std::optional<Numbers> microbatches;
  Numbers micro_batch_size;
  std::optional<int> global_batch_size;
  Words schedule, recompute;
  SweepLimits limits;
  CostsOrFile costs;
  std::uint64_t seed = 1;
  int threads = 0;
};

py::object search(const PlanOptions& common, const SweepArguments& a) {
  std::string json;
  {
    const py::gil_scoped_release others_may_run;
    const Model model = load_model(common);
    const Cluster cluster = cluster_or_host(a.limits.cluster);
    SweepRequest request;
    request.base = base_plan(common, a.seed, model);
    request.folder = ".";
    request.pp = numbers(a.pp, "pp");
    request.vpp = numbers(a.vpp, "vpp");
    if (a.microbatches) request.microbatches = numbers(*a.microbatches, "microbatches");
    request.micro_batch_size = numbers(a.micro_batch_size, "micro_batch_size");
    if (a.global_batch_size)
      request.global_batch_size = numbers(*a.global_batch_size, "global_batch_size").front();
    request.schedules = words(a.schedule);
    request.recompute.clear();
    for (const std::string& mode : words(a.recompute))
      request.recompute.push_back(parse_recompute(mode, ""));
    request.exact_slots = common.slots.has_value();
    request.threads = a.threads;
    set_limits(request, a.limits, cluster);
    const Costs costs = costs_for(a.costs, model, request.base, cluster);
    const SweepResult result = sweep(request, costs, cluster);
    require_feasible(result, request);
    json = weir::to_json(result);
    if (costs.basis == Basis::builtin)
      json = with_accuracy(nlohmann::ordered_json::parse(json), cluster.device.name).dump();
  }
  return from_json(json);
}

struct RunArguments {
  std::string backend;
  int steps = 3, warmup = 1;
  OptionalPath data;
  CostsOrFile costs;
};

RunResult execute(const ResolvedPlan& loaded, const RunArguments& a) {
  if (a.steps < 1 || a.warmup < 0)
    throw UsageError("run: expected at least 1 of steps and 0 of warmup");
  RunOptions options;
  options.backend = parse_backend(a.backend);
  options.steps = a.steps;
  options.warmup_steps = a.warmup;
  options.data = a.data;
  if (options.backend == BackendKind::synthetic) {
    const Cluster cluster = host_cluster();
    const Costs costs = costs_for(a.costs, loaded.model, loaded.plan, cluster);
    options.synthetic_duration_ns =
        expand(loaded.program, cost_table(loaded, costs, cluster).table).duration_ns;
  }
  RunResult result = weir::run(loaded, options, available_backends());
  label(result, loaded, a.backend);
  return result;
}

// (result, trace)
py::tuple run_plan(const PlacedPlan& plan, const RunArguments& arguments) {
  RunResult result;
  {
    const py::gil_scoped_release others_may_run;
    result = execute(plan.loaded, arguments);
  }
  if (result.oversubscribed) {
    const std::string line =
        fmt::format("K = {} on {} cores: the result is oversubscribed and compares with nothing",
                    plan.loaded.plan.pp, available_cores());
    if (PyErr_WarnEx(PyExc_UserWarning, line.c_str(), 1) != 0) throw py::error_already_set();
  }
  const py::object json = from_json(weir::to_json(result, arguments.backend));
  return py::make_tuple(json, PlannedTrace{std::move(result.trace), plan});
}

py::object hold_against(const PlannedTrace& predicted, const PlannedTrace& measured) {
  if (!predicted.plan || !measured.plan)
    throw UsageError("compare: a trace without a plan compares with nothing");
  if (predicted.trace.steps.size() != 1)
    throw UsageError("compare: the first trace is the forecast, of one step");
  Plan same = predicted.plan->loaded.plan;  // paths are relative to two folders
  same.model_path = measured.plan->loaded.plan.model_path;
  same.schedule = measured.plan->loaded.plan.schedule;
  if (same != measured.plan->loaded.plan ||
      predicted.plan->loaded.schedule.order != measured.plan->loaded.schedule.order)
    throw InputError("compare", "measured", "is of another plan than the forecast");
  return from_json(
      weir::to_json(compare(predicted.plan->loaded.program, predicted.trace, measured.trace)));
}

void bind_sweep(py::module_& m) {
  m.def(
      "sweep",
      [](const std::filesystem::path& model, const Numbers& pp, const Numbers& vpp,
         const std::optional<Numbers>& microbatches, const Numbers& micro_batch_size,
         std::optional<int> global_batch_size, const Words& schedule, const Words& recompute,
         const std::string& memory_limit, const OptionalPath& cluster, const CostsOrFile& costs,
         std::optional<std::int64_t> seq_length, const std::string& dtype,
         const std::string& attention, const std::string& optimizer, std::optional<int> slots,
         std::uint64_t seed, int threads) {
        const PlanOptions common{.model = model,
                                 .seq_length = seq_length,
                                 .dtype = dtype,
                                 .attention = attention,
                                 .optimizer = optimizer,
                                 .slots = slots};
        return search(common, {pp,
                               vpp,
                               microbatches,
                               micro_batch_size,
                               global_batch_size,
                               schedule,
                               recompute,
                               {memory_limit, cluster},
                               costs,
                               seed,
                               threads});
      },
      py::arg("model"), py::kw_only(), py::arg("pp") = std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8},
      py::arg("vpp") = 1, py::arg("microbatches") = py::none(), py::arg("micro_batch_size") = 1,
      py::arg("global_batch_size") = py::none(),
      py::arg("schedule") = std::vector<std::string>{"gpipe", "1f1b"},
      py::arg("recompute") = "none", py::arg("memory_limit") = "", py::arg("cluster") = py::none(),
      py::arg("costs") = py::none(), py::arg("seq_length") = py::none(), py::arg("dtype") = "fp32",
      py::arg("attention") = "unfused", py::arg("optimizer") = "adamw",
      py::arg("slots") = py::none(), py::arg("seed") = 1, py::arg("threads") = 0,
      "Searches K, M, partition, schedule and re-materialisation; each takes one value or several. "
      "weir.sweep/1, best "
      "first; Plan.from_dict makes a plan of a row's 'plan'.");
}

}  // namespace

void bind_engines(py::module_& m) {
  m.def("simulate", &simulate, py::arg("plan"), py::arg("costs") = py::none(),
        py::arg("cluster") = py::none(), py::arg("memory_limit") = "",
        "Forecasts one plan: (weir.forecast/1 as a dict, predicted Trace). Costs are built in "
        "unless given.");
  bind_sweep(m);
  m.def(
      "run",
      [](const PlacedPlan& plan, const std::string& backend, int steps, int warmup,
         const OptionalPath& data, const CostsOrFile& costs) {
        return run_plan(plan, {backend, steps, warmup, data, costs});
      },
      py::arg("plan"), py::arg("backend") = "cpu", py::arg("steps") = 3, py::arg("warmup") = 1,
      py::arg("data") = py::none(), py::arg("costs") = py::none(),
      "Executes a plan: (weir.run/1 as a dict, measured Trace). Backend 'cpu' trains; 'synthetic' "
      "waits as long as the "
      "costs say, so that many ranks need few cores.");
  m.def("compare", &hold_against, py::arg("predicted"), py::arg("measured"),
        "Error per kind of action and rank, and the waterfall from predicted to measured; "
        "weir.comparison/1.");
}

}  // namespace weir::python
