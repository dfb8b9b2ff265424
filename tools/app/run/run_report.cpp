// A run's end, told and kept.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run/run_report.hpp"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "plan/job/summary.hpp"
#include "plan/text/ending.hpp"
#include "plan/text/new_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/machine/host.hpp"
#include "tools/app/run/loss_picture.hpp"
#include "tools/app/run/run_json.hpp"
#include "tools/app/shared/picture.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/app/shared/traced_plan.hpp"
#include "traces/chrome_json.hpp"

namespace weir::app {
namespace {

// Writes into the measured trace where it was made.
void label(RunResult& result) {
  weir::RunResult& run = result.run;
  auto& info = run.trace.info;
  info["machine"] = machine_name(parse_backend(result.backend));
  info["version"] = WEIR_VERSION;
  info["backend"] = result.backend;
  info["seed"] = std::to_string(result.plan.loaded.plan.seed);
  if (!run.devices.empty()) info["sharing"] = run.devices.front().sharing;
  if (run.oversubscribed) info["label"] = "oversubscribed";
  if (run.kernels) info["kernels"] = "recorded, which slows launches";
}

// What disturbed the run, said and written into its trace.
void judge(RunResult& result, Disturbance disturbance, const Session& session) {
  Trace& trace = result.run.trace;
  // Ranks that outnumber the cores take them from each other, which is said already.
  if (result.run.oversubscribed) disturbance.preemptions_per_s = 0;
  if (!trace.steps.empty()) put_disturbance(trace, disturbance);
  disturbance.spread = disturbance_of(trace).spread;
  note_disturbance(disturbance, "the times of its steps are of this and not of the plan", session);
  result.disturbance = disturbance;
}

void save(const RunResult& result, const std::filesystem::path& folder, const Session& session) {
  NewFiles written;
  if (!result.run.trace.steps.empty()) {
    add_traced_plan(written, result.run.trace, moved_to(result.plan, folder), folder,
                    {folder, "measured"}, session);
  }
  if (result.run.kernels) {
    written.add(session.output(folder / "kernels.json"),
                to_chrome_json(result.run.trace, result.run.kernels->spans));
  }
  // Last: where it is there, all else is, and of the same run.
  written.add(session.output(folder / "run.json"), to_json(result).dump(2) + "\n");
  written.commit();
}

std::string stopped_line(const weir::RunResult& run) {
  const std::int64_t trained = run.first_step + static_cast<std::int64_t>(run.steps.size());
  std::string line = fmt::format("stopped after step {}", trained);
  if (!run.checkpoints.empty() && run.checkpoints.back().step == trained)
    line += fmt::format("; --resume {} goes on", run.checkpoints.back().folder.string());
  return line;
}

}  // namespace

void report(RunResult& result, const RunRequest& r, Disturbance disturbance,
            const Session& session) {
  judge(result, disturbance, session);
  if (result.run.stopped_by != 0) {
    session.progress("run", 1, 1);  // wipes the bar
    session.fault()(stopped_line(result.run));
  }
  if (result.run.graph_refused) {
    session.note(fmt::format("the step is launched action by action, not as one graph: {}",
                             *result.run.graph_refused));
  }
  label(result);
  // What a full disk does not take is said at the end: the training that it is of is over.
  const auto kept = [&](const auto& write) {
    std::optional<std::string>& not_kept = result.run.not_kept;
    const auto add = [&](const std::string& why) {
      not_kept = (not_kept ? *not_kept + "; " : "") + why;
    };
    try {
      write();
    } catch (const RunFailed& why) {
      add(why.what());
    } catch (const InputError& why) {
      add(why.what());
    } catch (const std::filesystem::filesystem_error&) {  // the folder that we are in is gone
      add(ending_of(std::current_exception()).line);
    }
  };
  // Before anything is written: the folder that this run goes on from may be its own.
  result.losses_before = losses_before(result.run);
  if (r.picture) {
    const Chart chart =
        loss_chart(result.run, result.losses_before, summary(result.plan.loaded.plan));
    kept([&] { save_picture(draw_chart(chart), chart_csv(chart), *r.picture, session); });
  }
  // Last: it says what else could not be kept.
  if (r.output) kept([&] { save(result, *r.output, session); });
}

}  // namespace weir::app
