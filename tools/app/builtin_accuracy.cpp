// Looks a device up in the table of what `weir reproduce` found of it, and says so.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/builtin_accuracy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace weir {

using Json = nlohmann::ordered_json;

std::optional<BuiltinAccuracy> builtin_accuracy(std::string_view device) {
  const auto all = builtin_accuracies();
  const auto found = std::ranges::find(all, device, &BuiltinAccuracy::device);
  return found == all.end() ? std::nullopt : std::optional(*found);
}

std::string describe(const std::optional<BuiltinAccuracy>& accuracy, std::string_view device) {
  if (!accuracy) {
    return fmt::format(
        "built-in costs of {}: no published figure was forecast by them when this was built; weir "
        "reproduce --cross-validate holds them against measured runs",
        device);
  }
  return fmt::format(
      "built-in costs of {}: {} published figures were forecast by them with a median error of "
      "{:.0f} %, "
      "{:.0f} % at worst ({}); weir reproduce lists them",
      device, accuracy->numbers, accuracy->median * 100, accuracy->worst * 100,
      accuracy->worst_row);
}

Json with_accuracy(Json whole, std::string_view device) {
  const auto accuracy = builtin_accuracy(device);
  Json& json = whole["builtin_accuracy"];
  json["device"] = device;
  json["numbers"] = accuracy ? accuracy->numbers : 0;
  json["median_abs_error"] = accuracy ? Json(accuracy->median) : Json();
  json["worst_abs_error"] = accuracy ? Json(accuracy->worst) : Json();
  json["worst_row"] = accuracy ? Json(accuracy->worst_row) : Json();
  return whole;
}

}  // namespace weir
