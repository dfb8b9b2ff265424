// What a search found, and what it left out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/search/space/baseline.hpp"
#include "sim/search/space/family.hpp"
#include "sim/search/space/left_out.hpp"
#include "sim/search/space/ranking.hpp"

namespace weir {

// How far a search of a large space went.
struct SearchEffort {
  std::int64_t looked_at = 0;  // candidates, in the order of their bounds
  std::int64_t refined = 0;    // of them, those whose boundaries were
  std::int64_t simulated = 0;  // steps computed on the way
  // Of these, the steps that this process computed in this call, and its threads' time for them:
  // slots proved, programs compiled, boundaries moved, plans forecast.
  std::int64_t timed = 0;
  double timed_seconds = 0;
};

struct SweepResult {
  int candidates = 0;
  int feasible = 0;  // of those forecast, for whatever question
  double seconds = 0;
  int threads = 1;                // that the search ran on
  std::vector<LeftOut> left_out;  // what of the space is no candidate or does not fit, by reason
  std::optional<SearchEffort> effort;  // none: every candidate was forecast
  // False: a signal or the budget ended the listing, and `candidates` are those listed until then.
  bool listed = true;
  // Of a search that was asked to stop: candidates that it had looked at.
  std::optional<std::int64_t> stopped_after;
  // How much longer the best plan's step is than a bound on all that was not forecast, as a share:
  // 0 where none can be better; infinity where nothing is known of the rest: a signal or the budget
  // ended a search that has no bounds, or the listing, or a search that has found no plan.
  double gap = 0;
  // No plan surely fits, and the effort ended before all that might were forecast.
  bool surer_open = false;
  std::vector<Ranked> plans;  // those that fit or may, best first (sim/search/space/ranking)
  // Where the best surely fits: the fastest that may fit, if that is faster.
  std::optional<Ranked> faster_if_it_fits;
  std::vector<FamilyBest> families;  // of the request's, one each, where plans fit
  std::vector<Ranked> front;         // where asked for: of all that was forecast (sim/search/front)
  std::vector<std::string> refused;  // why combinations were left out, each reason once
  std::optional<Ranked> smallest_misfit;  // where nothing fits: the plan that needs least memory
  std::optional<Baseline> baseline;       // where one was asked for and plans fit
};

}  // namespace weir
