// How good forecasts were, once the plans have been run (docs/design.md 17).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "plan/job/plan.hpp"
#include "plan/words/units.hpp"
#include "sim/forecast/forecast.hpp"
#include "traces/stats.hpp"

namespace weir {

// A plan that was forecast before it was run.
struct Outcome {
  Plan plan;
  Seconds predicted{0};
  Seconds by_profile{0};  // forecast by the costs as they were before the fit
  std::optional<StepInterval> interval;
  std::vector<double> times_s;                // of every measured step; at least one
  int rounds = 1;                             // of equally many steps each, in their order
  Bytes predicted_peak{0}, measured_peak{0};  // measured 0: not known

  [[nodiscard]] Seconds measured() const;  // the median step
  [[nodiscard]] double error() const;      // (predicted - measured) / measured
  [[nodiscard]] Seconds noise() const;     // interquartile range of the steps
  [[nodiscard]] bool inside() const;  // measured within the interval; false where there is none
};

struct Accuracy {
  double median_error = 0, p95_error = 0;  // of |error|; the 95th percentile by nearest rank
  double by_profile_median_error = 0, by_profile_p95_error = 0;  // the same without the fit
  double tau = 0;     // Kendall's tau-a over pairs that differ by more than the noise of both
  double regret = 0;  // measured time of the plan forecast fastest over the fastest, minus 1
  // Worst |predicted peak / measured peak - 1|; none where no peak was measured.
  std::optional<double> memory_error;
  int hits = 0, with_interval = 0;  // measured inside its interval, of so many that had one
};

// A plan that was run before the forecasts were made and again among what they are of.
struct RunAgain {
  Plan plan;
  Seconds earlier;              // its median step before
  std::vector<double> times_s;  // of the steps now; at least one

  [[nodiscard]] Seconds now() const { return Seconds(median(times_s)); }
};

// How much longer they took than before: the logarithm of the ratio, in the median; 0 of none.
[[nodiscard]] double slower(const std::vector<RunAgain>& plans);

// Whether the machine kept its pace from when the forecasts were made to the runs that judge them,
// seen in plans that were run at both times, and how forecasts would have done at the pace of then.
struct Pace {
  double ratio = 1;  // step time now over step time then, in the median of those plans
  std::vector<RunAgain> plans;
  double median_error = 0;  // of |error| of the forecasts times the ratio
  int hits = 0;             // measured inside the interval times the ratio
};

// Precondition: some plan was run again.
[[nodiscard]] Pace pace_of(const std::vector<Outcome>& outcomes, std::vector<RunAgain> plans);

// By what the plans' own rounds differ: |a / b - 1| of the medians of every second round and of the
// others, in the median of the plans. nullopt: none has two rounds.
[[nodiscard]] std::optional<double> rounds_differ(const std::vector<Outcome>& outcomes);

// Whether an error is the forecasts': rounds of one plan differ by less than half of it. Where they
// do not, how much of it is the machine's is not known.
[[nodiscard]] bool tells(double error, const std::optional<double>& rounds_differ);

// Precondition: there is at least one outcome.
[[nodiscard]] Accuracy accuracy(const std::vector<Outcome>& outcomes);

}  // namespace weir
