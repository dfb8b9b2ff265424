// A point a step: the loss of the mini-batch before its update.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run/loss_picture.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir::app {
namespace {

using Points = std::vector<std::pair<double, double>>;

// Of OUT/run.json where the checkpoint is OUT/checkpoints/step-N; no points where there is none, or
// another's file: a picture is no reason to end a run that is done.
Points losses_before(const std::filesystem::path& checkpoint, std::int64_t first_step) {
  const auto file = checkpoint.parent_path().parent_path() / "run.json";
  std::error_code missing;
  if (!std::filesystem::is_regular_file(file, missing)) return {};
  Points points;
  try {
    const auto json = nlohmann::json::parse(read_text_file(file));
    double step = json.at("first_step").get<double>();
    for (const auto& one : json.at("steps")) {
      ++step;
      // Steps after the checkpoint are trained again, and come from this run.
      if (step <= static_cast<double>(first_step))
        points.emplace_back(step, one.at("loss").get<double>());
    }
  } catch (const nlohmann::json::exception&) {
    return {};
  } catch (const InputError&) {
    return {};
  }
  return points;
}

}  // namespace

Chart loss_chart(const weir::RunResult& run, const std::string& name) {
  Chart chart{.title = "Loss by step", .x_label = "step", .y_label = "loss"};
  if (run.resumed) {
    Points before = losses_before(*run.resumed, run.first_step);
    if (!before.empty()) {
      chart.series.push_back(
          {"before it was stopped", std::move(before), kMuted, Series::Mark::stroke});
    }
  }
  Points points;
  double step = static_cast<double>(run.first_step);
  for (const StepResult& one : run.steps) points.emplace_back(++step, one.loss);
  chart.series.push_back({name, std::move(points), kBlue, Series::Mark::stroke});
  return chart;
}

}  // namespace weir::app
