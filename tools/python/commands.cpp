// The commands as functions, each over the table of fields that the command has too. In
// `weir.commands` they return the command's JSON, in `weir` what is handier in Python: plans and
// traces with it.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "tools/app/calibrate/calibrate.hpp"
#include "tools/app/compare/compare.hpp"
#include "tools/app/compare/explain.hpp"
#include "tools/app/evaluate/evaluate.hpp"
#include "tools/app/evaluate/tune.hpp"
#include "tools/app/fits/fits.hpp"
#include "tools/app/jobs/export.hpp"
#include "tools/app/machine/doctor.hpp"
#include "tools/app/model/layout.hpp"
#include "tools/app/model/model.hpp"
#include "tools/app/page/page.hpp"
#include "tools/app/plan/plan.hpp"
#include "tools/app/profile/profile.hpp"
#include "tools/app/reports/reports.hpp"
#include "tools/app/reproduce/reproduce.hpp"
#include "tools/app/run/run.hpp"
#include "tools/app/schedule/schedule.hpp"
#include "tools/app/simulate/simulate.hpp"
#include "tools/app/sweep/sweep.hpp"
#include "tools/python/use_cases.hpp"

namespace py = pybind11;

namespace weir::python {

namespace {

// (costs, quality of each fitted factor), or the JSON of fitted links.
py::object fitted(const app::CalibrateRequest&, app::CalibrateResult&& result) {
  if (result.links) return to_python(to_json(result));
  py::list quality;
  for (const FitQuality& q : result.fit.quality) {
    py::dict row;
    row["kind"] = q.kind;
    row["factor"] = q.factor;
    row["observations"] = q.observations;
    row["median_residual"] = q.median_residual;
    quality.append(row);
  }
  return py::make_tuple(std::move(result.fit.costs), quality);
}

}  // namespace

void bind_commands(py::module_& m) {
  m.def_submodule("commands",
                  "Every command of `weir` as a function of the same name and options, which "
                  "returns what the command prints with --json.");
  define(m, app::kCalibrate, {"costs", "traces", "cluster"},
         "tuple[Costs, list[dict[str, Any]]] | dict[str, Any]", &fitted);
  define(m, app::kCompare, {"predicted=first", "measured=second"});
  define(m, app::kDoctor, {});
  define(m, app::kExplain, {"plan", "costs", "cluster", "memory_limit"});
  define(m, app::kExport, {"plan", "to", "output"});
  define(m, app::kFits, {"job", "cluster", "memory_limit"});
  define(m, app::kReports, {"folders", "output"});
  define(m, app::kReproduce, {"cases"});
  define(m, app::kLayout, {"program", "mesh", "rules"});
  define(m, app::kModel, {"model", "seq_length", "dtype", "attention"});
  define(m, app::kPageFile, {"plan", "output"});
  define(m, app::kPlan, {"model"}, "Plan", [](const app::PlanRequest&, app::PlanResult&& result) {
    return py::cast(std::move(result.plan));
  });
  define(m, app::kSchedule, {"source=name", "pp", "microbatches", "vpp", "allow_reordered"},
         "Schedule | dict[str, Any]",
         [](const app::ScheduleRequest&, app::ScheduleResult&& result) -> py::object {
           if (result.schedules.size() == 1)
             return py::cast(std::move(*result.schedules.front().schedule));
           return to_python(to_json(result));  // a list, a proof, or several beside each other
         });
  define(m, app::kProfile,
         {"model", "micro_batch_sizes=micro_batch_size", "seq_length", "dtype", "attention"},
         "Costs", [](const app::ProfileRequest&, app::ProfileResult&& result) {
           return py::cast(std::move(result.costs));
         });
  define(m, app::kSimulate, {"plan", "costs", "cluster", "memory_limit"},
         "tuple[dict[str, Any], Trace]",
         [](const app::SimulateRequest&, app::SimulateResult&& result) {
           const py::object forecast = to_python(to_json(result));
           return py::make_tuple(forecast,
                                 PlannedTrace{std::move(result.trace), std::move(result.plan)});
         });
  define(m, app::kSweep, {"model"}, "Search",
         [](const app::SweepRequest&, app::SweepReply&& reply) -> py::object {
           py::object json = to_python(to_json(reply));
           if (!reply.leads) return json;  // another process has it
           return py::module_::import("weir").attr("Search")(json);
         });
  define(m, app::kRun, {"plan", "backend", "steps", "warmup", "data", "costs"},
         "tuple[dict[str, Any], Trace | None]",
         [](const app::RunRequest&, app::RunResult&& result) -> py::tuple {
           // The training is done: its result is not given up for a file.
           if (result.run.not_kept &&
               PyErr_WarnEx(PyExc_UserWarning, result.run.not_kept->c_str(), 1) != 0)
             throw py::error_already_set();
           const py::object json = to_python(to_json(result));
           // As one of several processes that does not lead it has no trace either.
           if (!result.leads) return py::make_tuple(json, py::none());
           return py::make_tuple(json,
                                 PlannedTrace{std::move(result.run.trace), std::move(result.plan)});
         });
  define(m, app::kTune, {"model"});
  define(m, app::kEvaluate, {"model"});
}

}  // namespace weir::python
