// `tune`, the whole loop: profile, sweep, run the most promising plans, compare, recalibrate,
// re-rank, report.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/search/sweep.hpp"
#include "tools/app/evaluate/tune_request.hpp"
#include "tools/app/machine/watch.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/report/pages/report.hpp"

namespace weir::app {

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
