// Levels, anchors and orders of measured runs.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/measured/judgement.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "costmodel/fit/builtin_interval.hpp"
#include "traces/stats.hpp"

namespace weir {

double relative_error(double log_ratio) { return std::abs(std::exp(-log_ratio) - 1); }

double level_of_others(std::span<const Judged> all, const std::string& cluster,
                       const std::string& stack) {
  std::map<std::pair<std::string, std::string>, std::vector<double>> groups;
  for (const Judged& one : all) {
    if (one.cluster != cluster && one.stack != stack)
      groups[{one.cluster, one.stack}].push_back(one.log_error);
  }
  std::vector<double> levels;
  for (const auto& [group, ratios] : groups) levels.push_back(median(ratios));
  return level_of_others(std::move(levels));
}

void learn_levels(std::vector<Judged>& all) {
  std::map<std::pair<std::string, std::string>, double> known;
  for (Judged& one : all) {
    const auto key = std::pair(one.cluster, one.stack);
    auto found = known.find(key);
    if (found == known.end())
      found = known.emplace(key, level_of_others(all, one.cluster, one.stack)).first;
    one.log_factor = found->second;
  }
}

std::vector<std::vector<double>> anchored_log_errors(std::span<const Judged> rows,
                                                     const MayAnchor& may_anchor) {
  std::vector<std::vector<double>> all;
  for (const Judged& anchor : rows) {
    std::vector<double> errors;
    for (const Judged& other : rows) {
      if (&other != &anchor && may_anchor(anchor, other))
        errors.push_back(other.log_error - anchor.log_error);
    }
    if (!errors.empty()) all.push_back(std::move(errors));
  }
  return all;
}

double over_anchors(const std::vector<std::vector<double>>& log_errors,
                    const Statistic& statistic) {
  std::vector<double> figures;
  for (const std::vector<double>& errors : log_errors) {
    std::vector<double> relative;
    for (const double error : errors) relative.push_back(relative_error(error));
    figures.push_back(statistic(std::move(relative)));
  }
  return median(figures);
}

double quantile(std::vector<double> values, double level) {
  std::ranges::sort(values);
  const double last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::lround(last * level))];
}

double largest(std::vector<double> values) { return *std::ranges::max_element(values); }

double mean(std::vector<double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

OrderedPairs ordered_pairs(std::span<const MeasuredAndForecast> rows, double apart) {
  OrderedPairs result;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double measured = std::log(rows[i].measured / rows[j].measured);
      if (std::abs(measured) <= std::log1p(apart)) continue;
      ++result.pairs;
      // A tie of the forecasts orders nothing: it counts as disagreeing.
      if (measured * (rows[i].forecast - rows[j].forecast) > 0) ++result.agreeing;
    }
  }
  return result;
}

double regret(std::span<const MeasuredAndForecast> rows) {
  const auto chosen = std::ranges::min_element(rows, {}, &MeasuredAndForecast::forecast);
  const auto best = std::ranges::min_element(rows, {}, &MeasuredAndForecast::measured);
  return chosen->measured / best->measured - 1;
}

int place_of_best(std::span<const MeasuredAndForecast> rows) {
  const auto best = std::ranges::min_element(rows, {}, &MeasuredAndForecast::measured);
  const auto before = [&](const MeasuredAndForecast& row) { return row.forecast < best->forecast; };
  return 1 + static_cast<int>(std::ranges::count_if(rows, before));
}

}  // namespace weir
