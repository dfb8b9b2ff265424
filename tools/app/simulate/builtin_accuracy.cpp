// Looks a device up in the tables of what `weir reproduce` found of it, and says so.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/simulate/builtin_accuracy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace weir {

using Json = nlohmann::ordered_json;

namespace {

template <class Accuracy>
std::optional<Accuracy> of_device(std::span<const Accuracy> all, std::string_view device) {
  const auto found = std::ranges::find(all, device, &Accuracy::device);
  return found == all.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

std::optional<BuiltinAccuracy> builtin_accuracy(std::string_view device) {
  return of_device(builtin_accuracies(), device);
}

std::optional<CrossValidatedAccuracy> cross_validated(std::string_view device) {
  return of_device(cross_validated_accuracies(), device);
}

std::string describe(const std::optional<BuiltinAccuracy>& accuracy, std::string_view device) {
  // Two sources: figures of papers, and measured steps that were left out of what was learnt.
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
