// Looks a device up in the table of what `weir reproduce` found of it, and says so.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/builtin_accuracy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "costmodel/fit/builtin_interval.hpp"
#include "tools/app/machine.hpp"

namespace weir {

using Json = nlohmann::ordered_json;

std::optional<BuiltinAccuracy> builtin_accuracy(std::string_view device) {
  const auto all = builtin_accuracies();
  const auto found = std::ranges::find(all, device, &BuiltinAccuracy::device);
  return found == all.end() ? std::nullopt : std::optional(*found);
}

std::optional<CrossValidatedAccuracy> cross_validated(std::string_view device) {
  struct Weighted {
    double error, rows;  // a quantile stands for its share of the group's rows
  };
  std::vector<Weighted> errors;
  CrossValidatedAccuracy accuracy;
  const std::string text(shipped_group_errors());
  for (const GroupErrors& group : parse_group_errors(text, "builtin_errors.csv")) {
    if (group.quantity != BuiltinQuantity::step) continue;
    if (app::load_cluster_or_name(group.cluster).device.name != device) continue;
    accuracy.rows += group.rows;
    const double share = group.rows / static_cast<double>(group.quantiles.size());
    for (const double quantile : group.quantiles) errors.push_back({quantile, share});
  }
  if (errors.empty()) return std::nullopt;
  // The median over the rows of all groups: the first error with half of the weight up to it.
  std::ranges::sort(errors, {}, &Weighted::error);
  double below = 0;
  for (const Weighted& each : errors) {
    accuracy.median = std::expm1(each.error);  // they are |log(measured / forecast)|
    below += each.rows;
    if (below >= accuracy.rows / 2.0) break;
  }
  return accuracy;
}

std::string describe(const std::optional<BuiltinAccuracy>& accuracy, std::string_view device) {
  const auto measured = cross_validated(device);
  std::string words;
  if (accuracy) {
    words = fmt::format(
        "{} published figures were forecast by them with a median error of {:.0f} %, {:.0f} % at "
        "worst ({}); weir reproduce lists them",
        accuracy->numbers, accuracy->median * 100, accuracy->worst * 100, accuracy->worst_row);
  }
  if (measured) {
    words += fmt::format(
        "{}{} measured steps were forecast with a median error of {:.0f} %, their cluster and "
        "software left out of what was learnt; weir reproduce --cross-validate lists them",
        words.empty() ? "" : "; ", measured->rows, measured->median * 100);
  }
  if (words.empty()) {
    words =
        "no published figure was forecast by them when this was built; weir reproduce "
        "--cross-validate holds those of other devices against measured runs";
  }
  return fmt::format("built-in costs of {}: {}", device, words);
}

Json with_accuracy(Json whole, std::string_view device) {
  const auto accuracy = builtin_accuracy(device);
  Json& json = whole["builtin_accuracy"];
  json["device"] = device;
  json["numbers"] = accuracy ? accuracy->numbers : 0;
  json["median_abs_error"] = accuracy ? Json(accuracy->median) : Json();
  json["worst_abs_error"] = accuracy ? Json(accuracy->worst) : Json();
  json["worst_row"] = accuracy ? Json(accuracy->worst_row) : Json();
  const auto measured = cross_validated(device);
  json["measured_steps"] = measured ? measured->rows : 0;
  json["measured_median_abs_error"] = measured ? Json(measured->median) : Json();
  return whole;
}

}  // namespace weir
