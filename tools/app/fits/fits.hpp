// `fits`: whether a job runs out of memory, on which rank, and what to change.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/explain/first_changes.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/app/machine/machine.hpp"
#include "tools/app/shared/field.hpp"
#include "tools/app/sweep/edits.hpp"

namespace weir::app {

struct FitsRequest {
  PlanSource job;    // a plan, or another tool's job
  std::string from;  // whose job; empty: a plan, or what its words say
  CostsSource costs;
  std::optional<std::filesystem::path> cluster;  // none: `memory_limit` says what there is
  StackChoice stack;
  std::optional<std::filesystem::path> model;  // of a job that only names it
  std::optional<int> gpus;
  bool any_schedule = false;
  std::string memory_limit;            // "80 GiB"; empty: the named cluster's
  std::optional<double> train_tokens;  // of a whole training
};
[[nodiscard]] Fields fields(FitsRequest& request);

// A plan that surely fits.
struct FittingChange {
  std::string what;  // "ZeRO: stage 1"
  Plan plan;
  Forecast forecast;
  double ratio = 1;  // step time over the job's
  Edits edits;       // of the job
};

struct FitsResult {
  std::string name;
  Plan plan;
  Forecast forecast;
  std::size_t fullest = 0;              // rank: of the largest share of its limit
  std::vector<FittingChange> changes;   // of a job that does not surely fit: three at most
  int choices = 1;                      // that each of them makes: 2 where no single one is enough
  std::optional<FittingChange> faster;  // of one that fits: what uses the room
  std::optional<FittingChange>
      larger;  // where no choice is enough: on twice to 8 times the devices
};

// Throws UsageError without a limit.
[[nodiscard]] FitsResult fits(const FitsRequest& request, const Session& session);
[[nodiscard]] nlohmann::ordered_json to_json(const FitsResult& result);  // weir.fits/1
// Whether it is the host's memory that holds less surely than the devices'.
[[nodiscard]] bool host_is_full(const Forecast& f);
// Throws NoFeasiblePlan where the job does not surely fit.
void require_success(const FitsResult& result);

inline constexpr UseCase<FitsRequest, FitsResult> kFits{
    "fits", "Say whether a job runs out of memory, where, and what to change", &fits};

}  // namespace weir::app
