// A point a step: the loss of the mini-batch before its update.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/run/loss_picture.hpp"

#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir::app {
std::vector<double> losses_before(const weir::RunResult& run) {
  if (!run.resumed) return {};
  const auto file = run.resumed->parent_path().parent_path() / "run.json";
  std::error_code missing;
  if (!std::filesystem::is_regular_file(file, missing)) return {};
  try {
    const auto json = nlohmann::json::parse(read_text_file(file));
    std::vector<double> losses;
    if (json.contains("losses_before")) json["losses_before"].get_to(losses);
    for (const auto& one : json.at("steps")) losses.push_back(one.at("loss").get<double>());
    // The last one's step; those after the checkpoint are trained again, and come from this run.
    const auto trained = json.at("first_step").get<std::int64_t>() + std::ssize(json["steps"]);
    const std::int64_t kept = std::ssize(losses) - (trained - run.first_step);
    if (trained < run.first_step || kept < 0) return {};
    losses.resize(static_cast<std::size_t>(kept));
    return losses;
  } catch (const nlohmann::json::exception&) {
    return {};
  } catch (const InputError&) {
    return {};
  }
}

Chart loss_chart(const weir::RunResult& run, const std::vector<double>& before,
                 const std::string& name) {
  Chart chart{.title = "Loss by step", .x_label = "step", .y_label = "loss"};
  const auto add = [&chart](const std::string& of, double step, const auto& losses, auto color) {
    std::vector<std::pair<double, double>> points;
    for (const double loss : losses) points.emplace_back(++step, loss);
    chart.series.push_back({of, std::move(points), color, Series::Mark::stroke});
  };
  const auto first = static_cast<double>(run.first_step);
  if (!before.empty())
    add("before it was stopped", first - static_cast<double>(before.size()), before, kMuted);
  std::vector<double> losses;
  for (const StepResult& step : run.steps) losses.push_back(step.loss);
  add(name, first, losses, kBlue);
  return chart;
}

}  // namespace weir::app
