// `tune`, the whole loop: profile, sweep, run the most promising plans, compare, recalibrate,
// re-rank, report.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "sim/search/sweep.hpp"
#include "tools/app/machine/machine.hpp"
#include "tools/app/machine/watch.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/app/shared/plan_fields.hpp"
#include "tools/report/pages/report.hpp"

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
[[nodiscard]] Fields fields(TuneRequest& request);

struct TuneResult {
  Report report;
  Ranked best;                   // by the recalibrated costs, or the profile's where those stand
  bool recalibrated = true;      // the fit forecast plans left out of it no worse than the profile
  Disturbance disturbance = {};  // of the profile and the runs, the worse
  // The plan that ran fastest, in short; empty: none can be told from the others, for the reason
  // that the report has.
  std::string winner;
};

// Throws NoFeasiblePlan where nothing fits.
[[nodiscard]] TuneResult tune(const TuneRequest& request, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const TuneResult& result);  // weir.tune/1

inline constexpr UseCase<TuneRequest, TuneResult> kTune{
    "tune", "The loop: profile, sweep, run the best, recalibrate, report", &tune};

}  // namespace weir::app
