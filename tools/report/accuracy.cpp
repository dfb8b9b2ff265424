// Errors, ranks and hits of plans that were forecast before they were run.
// SPDX-License-Identifier: Apache-2.0
#include "tools/report/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "traces/stats.hpp"

namespace weir {
namespace {

double kendall(const std::vector<Outcome>& outcomes) {
  int concordant = 0, discordant = 0;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    for (std::size_t j = i + 1; j < outcomes.size(); ++j) {
      const Outcome &a = outcomes[i], &b = outcomes[j];
      const double measured = (a.measured() - b.measured()).count();
      if (std::abs(measured) <= (a.noise() + b.noise()).count()) continue;
      (measured * (a.predicted - b.predicted).count() > 0 ? concordant : discordant)++;
    }
  }
  return concordant + discordant == 0
             ? 1.0
             : static_cast<double>(concordant - discordant) / (concordant + discordant);
}

double regret(const std::vector<Outcome>& outcomes) {
  const auto chosen = std::ranges::min_element(outcomes, {}, &Outcome::predicted);
  const auto best = std::ranges::min_element(outcomes, {}, &Outcome::measured);
  return chosen->measured() / best->measured() - 1;
}

// By nearest rank.
double percentile_95(std::vector<double> values) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(values.size()))) - 1];
}

}  // namespace

Seconds Outcome::measured() const { return Seconds(median(times_s)); }

double Outcome::error() const { return predicted / measured() - 1; }

Seconds Outcome::noise() const {
  std::vector<double> times = times_s;
  std::ranges::sort(times);
  return Seconds(times[times.size() * 3 / 4] - times[times.size() / 4]);
}

bool Outcome::inside() const {
  return interval && interval->low <= measured() && measured() <= interval->high;
}

std::optional<double> rounds_differ(const std::vector<Outcome>& outcomes) {
  std::vector<double> differences;
  for (const Outcome& o : outcomes) {
    const std::size_t steps = o.times_s.size() / static_cast<std::size_t>(o.rounds);  // of a round
    if (o.rounds < 2 || steps == 0) continue;
    std::vector<double> even, odd;
    for (std::size_t i = 0; i < o.times_s.size(); ++i)
      (i / steps % 2 == 0 ? even : odd).push_back(o.times_s[i]);
    differences.push_back(std::abs(median(std::move(even)) / median(std::move(odd)) - 1));
  }
  if (differences.empty()) return std::nullopt;
  return median(std::move(differences));
}

bool tells(double error, const std::optional<double>& rounds_differ) {
  return rounds_differ && *rounds_differ < error / 2;
}

double slower(const std::vector<RunAgain>& plans) {
  std::vector<double> longer;
  for (const RunAgain& p : plans) longer.push_back(std::log(p.now() / p.earlier));
  return longer.empty() ? 0 : median(std::move(longer));
}

Pace pace_of(const std::vector<Outcome>& outcomes, std::vector<RunAgain> plans) {
  Pace pace{.ratio = std::exp(slower(plans))};
  pace.plans = std::move(plans);
  std::vector<double> errors;
  for (Outcome now : outcomes) {
    now.predicted *= pace.ratio;
    if (now.interval)
      now.interval = {now.interval->low * pace.ratio, now.interval->high * pace.ratio};
    errors.push_back(std::abs(now.error()));
    pace.hits += now.inside() ? 1 : 0;
  }
  pace.median_error = median(std::move(errors));
  return pace;
}

Accuracy accuracy(const std::vector<Outcome>& outcomes) {
  Accuracy a;
  std::vector<double> errors, unfitted;
  for (const Outcome& o : outcomes) {
    errors.push_back(std::abs(o.error()));
    unfitted.push_back(std::abs(o.by_profile / o.measured() - 1));
    // Where no peak was measured there is no error of it.
    if (const auto peak = static_cast<double>(o.measured_peak.count()); peak > 0) {
      const double error = std::abs(static_cast<double>(o.predicted_peak.count()) / peak - 1);
      a.memory_error = std::max(a.memory_error.value_or(0), error);
    }
    // Plans without an interval count neither as hits nor as misses.
    a.with_interval += o.interval ? 1 : 0;
    a.hits += o.inside() ? 1 : 0;
  }
  a.median_error = median(errors);
  a.p95_error = percentile_95(std::move(errors));
  a.by_profile_median_error = median(unfitted);
  a.by_profile_p95_error = percentile_95(std::move(unfitted));
  a.tau = kendall(outcomes);
  a.regret = regret(outcomes);
  return a;
}

}  // namespace weir
