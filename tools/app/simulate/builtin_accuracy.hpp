// How far built-in costs were off where they can be held to published measurements: what stands in
// the place of an interval that nothing measured could give. Looked up in tables that
// tools/reproduce/accuracy_table.cpp wrote when Weir was built; nothing is reproduced here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weir {

struct BuiltinAccuracy {
  std::string_view device;
  int numbers = 0;  // published ones, forecast by its built-in costs, none of them fitted to
  double median = 0, worst = 0;  // of |error|
  std::string_view worst_row;
  bool operator==(const BuiltinAccuracy&) const = default;
};

// The table, by device.
[[nodiscard]] std::span<const BuiltinAccuracy> builtin_accuracies();

// Over the predicted rows of `weir reproduce`. nullopt: none is of this device.
[[nodiscard]] std::optional<BuiltinAccuracy> builtin_accuracy(std::string_view device);

// How built-in costs forecast the measured steps of clusters of this device, each left out, with
// its software, of what was learnt: the shipped table of weir reproduce --cross-validate.
struct CrossValidatedAccuracy {
  std::string_view device;
  int rows = 0;
  double median = 0;  // of |measured / forecast - 1|
  bool operator==(const CrossValidatedAccuracy&) const = default;
};
[[nodiscard]] std::span<const CrossValidatedAccuracy> cross_validated_accuracies();
// nullopt: no measured run is of this device.
[[nodiscard]] std::optional<CrossValidatedAccuracy> cross_validated(std::string_view device);

// A sentence with the device's name, for people: both of the above, or that there is neither.
[[nodiscard]] std::string describe(const std::optional<BuiltinAccuracy>& accuracy,
                                   std::string_view device);

// `whole`, an object, with "builtin_accuracy" added, both of the above: device, numbers,
// median_abs_error, worst_abs_error and worst_row, the last three null where no number was
// forecast; measured_steps and measured_median_abs_error, null where none was measured.
[[nodiscard]] nlohmann::ordered_json with_accuracy(nlohmann::ordered_json whole,
                                                   std::string_view device);

}  // namespace weir
