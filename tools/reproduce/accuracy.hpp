// How far built-in costs were off where they can be held to published measurements: what stands in
// the place of an interval that nothing measured could give.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir {

struct BuiltinAccuracy {
  int numbers =
      0;  // published numbers forecast by this device's built-in costs, none of them fitted to
  double median = 0, worst = 0;  // of |error|
  std::string worst_row;
  bool operator==(const BuiltinAccuracy&) const = default;
};

// Over the predicted rows of `weir reproduce`; computed when asked for. nullopt: none is of this
// device.
[[nodiscard]] std::optional<BuiltinAccuracy> builtin_accuracy(std::string_view device);

// A sentence with the device's name, for people.
[[nodiscard]] std::string describe(const std::optional<BuiltinAccuracy>& accuracy,
                                   std::string_view device);

// `json`, an object, with "builtin_accuracy" added: device, numbers, median_abs_error,
// worst_abs_error and worst_row, the last three null where no number was forecast.
[[nodiscard]] std::string with_accuracy(const std::string& json, std::string_view device,
                                        int indent);

}  // namespace weir
