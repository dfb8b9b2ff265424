// The sub-commands, in the order of help.
// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/commands.hpp"

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
#include "tools/weir/stop_signals.hpp"
#ifdef WEIR_HAS_SERVE
#include "tools/serve/serve.hpp"
#endif

namespace weir {

void add_commands(CommandLine& line) {
  line.add(app::kDoctor, print, {.tables = false});
  line.add(app::kModel, print);
  line.add(app::kLayout, print);
  line.add(app::kPlan, print, {.tables = false});
  // Those that may take long listen for signals, and keep what they have.
  line.add(app::kSchedule, print, {.defaults = {.stopping = stop_on_signals()}});
  line.add(app::kPageFile, print, {.tables = false});
#ifdef WEIR_HAS_SERVE
  line.add(kServe, print,
           {.defaults = {.stopping = stop_on_signals(), .ready = print_link}, .tables = false});
#endif
  line.add(app::kProfile, print, {.indent = 1, .defaults = {.output = "profile.json"}});
  line.add(app::kCalibrate, print, {.indent = 1, .defaults = {.output = "costs.json"}});
  line.add(app::kSimulate, print, {.timeline = true});
  line.add(app::kFits, print);
  line.add(app::kExplain, print);
  line.add(app::kSweep, print, {.defaults = {.stopping = stop_on_signals()}});
  line.add(app::kRun, print, {.defaults = {.hangs = end_at_once, .stopping = stop_on_signals()}});
  line.add(app::kCompare, print);
  line.add(app::kTune, print);
  line.add(app::kEvaluate, print);
  line.add(app::kReports, print);
  line.add(app::kExport, print, {.indent = 1, .tables = false});
  line.add(app::kReproduce, print);
}

}  // namespace weir
