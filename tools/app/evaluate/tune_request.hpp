// What a tuning is asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "tools/app/machine/machine.hpp"
#include "tools/app/machine/watch.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/app/shared/source.hpp"

namespace weir::app {

struct TuneRequest {
  PlanOptions plan;
  std::string backend = "cpu";
  std::optional<int> devices;  // most ranks
  int global_batch_size = 8, plans = 6, rounds = 3, steps = 2;
  PlanSource baseline;       // the plan in use today; none: the plain K = 1
  std::string memory_limit;  // "80 GiB"; empty: 80 % of a device's
  StackChoice stack;         // that the forecasts before the first run are of
  std::optional<std::filesystem::path> data;
  std::filesystem::path output = "weir-out";
  bool resume = false;  // go on with what a tune that was cut short has measured
  QuietOptions quiet;
  std::uint64_t seed = 1;
};

}  // namespace weir::app
