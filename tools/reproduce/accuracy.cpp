// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/accuracy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/reproduce/reproduction.hpp"
#include "traces/stats.hpp"

namespace weir {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const std::optional<BuiltinAccuracy>& accuracy, std::string_view device) {
  Json json{{"device", device},
            {"numbers", 0},
            {"median_abs_error", nullptr},
            {"worst_abs_error", nullptr},
            {"worst_row", nullptr}};
  if (!accuracy) return json;
  json["numbers"] = accuracy->numbers;
  json["median_abs_error"] = accuracy->median;
  json["worst_abs_error"] = accuracy->worst;
  json["worst_row"] = accuracy->worst_row;
  return json;
}

}  // namespace

std::optional<BuiltinAccuracy> builtin_accuracy(std::string_view device) {
  BuiltinAccuracy accuracy;
  std::vector<double> errors;
  for (const auto& run : {reproduce_builtin, reproduce_gpipe_amoebanet, reproduce_torchgpipe}) {
    for (const ReproductionLine& line : run({}).lines) {
      if (line.role != Role::predicted || line.device != device) continue;
      errors.push_back(std::abs(line.error()));
      if (errors.back() < accuracy.worst) continue;
      accuracy.worst = errors.back();
      accuracy.worst_row = line.row;
    }
  }
  if (errors.empty()) return std::nullopt;
  accuracy.numbers = static_cast<int>(errors.size());
  accuracy.median = median(std::move(errors));
  return accuracy;
}

std::string describe(const std::optional<BuiltinAccuracy>& accuracy, std::string_view device) {
  if (!accuracy) {
    return fmt::format(
        "built-in costs of {}: no published figure was forecast by them, so how far they err is "
        "not known",
        device);
  }
  return fmt::format(
      "built-in costs of {}: {} published figures were forecast by them with a median error of "
      "{:.0f} %, "
      "{:.0f} % at worst ({}); weir reproduce lists them",
      device, accuracy->numbers, accuracy->median * 100, accuracy->worst * 100,
      accuracy->worst_row);
}

std::string with_accuracy(const std::string& json, std::string_view device, int indent) {
  Json whole = Json::parse(json);
  whole["builtin_accuracy"] = to_json(builtin_accuracy(device), device);
  return whole.dump(indent);
}

}  // namespace weir
