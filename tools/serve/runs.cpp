// Runs by their files: run.json when a run has ended, progress.json while it is under way.
// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/runs.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <system_error>
#include <utility>

#include "plan/job/summary.hpp"
#include "plan/text/ending.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/app/shared/files_below.hpp"
#include "tools/app/shared/folder_lock.hpp"
#include "tools/app/shared/traced_plan.hpp"
#include "tools/app/simulate/simulate.hpp"

namespace weir {
namespace {

using Path = std::filesystem::path;

constexpr std::size_t kMostRuns = 200;  // the first by name

bool is_file(const Path& path) {
  std::error_code none;  // what cannot be looked at is no run's
  return std::filesystem::is_regular_file(std::filesystem::symlink_status(path, none));
}

struct RunFolders {
  std::vector<Path> found;  // by name
  bool all = true;          // false: there is more than is looked at
};

RunFolders run_folders() {
  RunFolders runs;
  const app::FilesBelow files = app::files_below(".", kWorkFolder, [](const Path& file) {
    return file.filename() == "run.json" || file.filename() == "progress.json";
  });
  runs.all = files.all;
  for (const Path& file : files.found) runs.found.push_back(file.parent_path().lexically_normal());
  std::ranges::sort(runs.found);
  runs.found.erase(std::unique(runs.found.begin(), runs.found.end()), runs.found.end());
  if (runs.found.size() <= kMostRuns) return runs;
  runs.found.resize(kMostRuns);
  runs.all = false;
  return runs;
}

// The costs that were learnt nearest to the run: beside it, or in a folder around it.
std::optional<Path> costs_near(Path folder) {
  for (;;) {
    if (is_file(folder / "costs.json")) return folder / "costs.json";
    if (folder.empty() || folder == ".") return std::nullopt;
    folder = folder.parent_path();
  }
}

// The files that a row is made of, as they are now. One that is not there has the clock's least.
std::vector<FileSeen> files_of_row(const Path& folder, const Path& run) {
  std::vector<FileSeen> seen;
  const auto see = [&](const Path& file) {
    std::error_code none;  // one that has gone since it was found is told where it is read
    seen.emplace_back(file, std::filesystem::last_write_time(file, none));
  };
  see(run);
  see(folder / "measured.json");
  if (const auto costs = costs_near(folder)) see(*costs);
  return seen;
}

// What the run's plan was forecast to take, by simulate's own way.
void add_forecast(Json& row, const ResolvedPlan& plan, const Path& folder) {
  app::SimulateRequest request;
  request.plan = app::PlacedPlan{plan, folder};
  if (const auto costs = costs_near(folder)) request.costs = *costs;
  const app::SimulateResult result = app::simulate(request, app::Session());
  row["basis"] = std::string(to_string(result.forecast.basis));
  row["forecast_step_time_s"] = result.forecast.step_time.count();
  if (row["step_time_s"].is_number()) {
    const double measured = row["step_time_s"].get<double>();
    if (measured > 0) row["error"] = result.forecast.step_time.count() / measured - 1;
  }
}

// The plan is in the trace that the run wrote.
void add_plan(Json& row, const Path& folder, bool trains) {
  const TracedPlan traced = load_traced_plan(folder / "measured.json");
  const Plan& plan = traced.plan.plan;
  row["plan"] = summary(plan);
  const double step = row["step_time_s"].is_number() ? row["step_time_s"].get<double>() : 0;
  const auto samples = static_cast<double>(plan.global_batch_size());
  if (step > 0 && plan.seq_length > 0)
    row["tokens_per_s"] = samples * static_cast<double>(plan.seq_length) / step;
  // Waits are of the forecast itself: an error would be of the clock.
  if (trains) add_forecast(row, traced.plan, folder);
}

Json empty_row(const Path& folder) {
  return {{"folder", folder.string()}, {"state", nullptr},
          {"backend", nullptr},        {"plan", nullptr},
          {"steps", nullptr},          {"of", nullptr},
          {"loss", nullptr},           {"step_time_s", nullptr},
          {"tokens_per_s", nullptr},   {"forecast_step_time_s", nullptr},
          {"basis", nullptr},          {"error", nullptr},
          {"losses", Json::array()},   {"why", nullptr}};
}

void read_run(Json& row, const Path& folder) {
  const Path file = folder / "run.json";
  const Json json = parse_json(read_text_file(file), file.string());
  JsonObject run(json, file.string(), "");
  run.expect_schema("weir.run/1");
  row["state"] = run.boolean_or("stopped", false) ? "stopped" : "ended";
  const std::string backend = run.text("backend");
  row["backend"] = backend;
  row["steps"] = run.integer("first_step");
  for (JsonObject& step : run.objects("steps")) {
    row["steps"] = row["steps"].get<std::int64_t>() + 1;
    if (!step.is_null("loss")) row["losses"].push_back(step.number("loss", -1e300));
  }
  if (!row["losses"].empty()) row["loss"] = row["losses"].back();
  row["of"] = row["steps"];
  const double step = run.number("step_time_s");
  if (step > 0) row["step_time_s"] = step;
  if (is_file(folder / "measured.json")) add_plan(row, folder, backend != "synthetic");
}

void read_progress(Json& row, const Path& folder) {
  const Path file = folder / "progress.json";
  const Json json = parse_json(read_text_file(file), file.string());
  JsonObject run(json, file.string(), "");
  run.expect_schema("weir.progress/1");
  row["backend"] = run.text("backend");
  row["plan"] = run.text("plan");
  row["steps"] = run.integer("step");
  row["of"] = run.integer("of");
  if (!run.is_null("loss")) row["loss"] = run.number("loss", -1e300);
  row["step_time_s"] = run.number("step_time_s");
  if (!run.is_null("tokens_per_s")) row["tokens_per_s"] = run.number("tokens_per_s");
}

}  // namespace

Json runs_json(Workplace& workplace) {
  const std::scoped_lock lock(workplace.reading_runs);
  Json rows = Json::array();
  const RunFolders runs = run_folders();
  // Of folders that have gone nothing is kept: a server may run for months.
  std::erase_if(workplace.runs, [&](const auto& known) {
    return !std::ranges::binary_search(runs.found, Path(known.first));
  });
  for (const Path& folder : runs.found) {
    // A run under way replaces the file of the one before.
    const bool under_way = is_file(folder / "progress.json");
    const Path file = folder / (under_way ? "progress.json" : "run.json");
    std::vector<FileSeen> now = files_of_row(folder, file);
    auto& [seen, row] = workplace.runs[folder.string()];
    if (row.is_null() || seen != now) {
      seen = std::move(now);
      row = empty_row(folder);
      try {
        under_way ? read_progress(row, folder) : read_run(row, folder);
      } catch (...) {
        row["why"] = ending_of(std::current_exception()).line;
      }
    }
    rows.push_back(row);
    // Whoever was killed has left its progress, and no lock.
    if (under_way && row["why"].is_null())
      rows.back()["state"] = app::is_locked(folder) ? "training" : "broken off";
  }
  if (!runs.all) {
    rows.push_back(empty_row("..."));
    rows.back()["why"] = "more than is looked at: serve a folder with fewer files";
  }
  return rows;
}

}  // namespace weir
