// Gauss-Newton over the logarithms of the factors, each pass a robust ridge regression
// (docs/theory.md 8.5).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/fit/anchor.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "traces/stats.hpp"

namespace weir {
namespace {

// Log ratios: by how much repeats of one job differ; what built-in costs miss of one plan beside
// what they miss of all (the median error of plans of a cluster when one of them set the scale);
// and how far a named factor is expected from the common scale. They weigh what was measured
// against what was expected, and are taken as known.
constexpr double kRepeats = 0.01;
constexpr double kFamily = 0.08;
constexpr double kFactor = 0.5;

constexpr int kTimes = 3;
constexpr std::array<double AnchorFactors::*, kTimes> kTimeFactors{
    &AnchorFactors::compute, &AnchorFactors::messages, &AnchorFactors::step};
using Logs = std::array<double, kTimes>;  // of the factors of time

AnchorFactors factors_of(const Logs& logs) {
  AnchorFactors factors;
  for (int j = 0; j < kTimes; ++j) factors.*kTimeFactors[j] = std::exp(logs[j]);
  return factors;
}

Logs all_alike(double log) { return {log, log, log}; }

double residual(const MeasuredStep& run, const Logs& logs) {
  return std::log(run.step_time / run.forecast(factors_of(logs)).step_time);
}

std::vector<double> residuals(std::span<const MeasuredStep> runs, const Logs& logs) {
  std::vector<double> all;
  for (const MeasuredStep& run : runs) all.push_back(residual(run, logs));
  return all;
}

double median_size(std::vector<double> values) {
  for (double& value : values) value = std::abs(value);
  return median(std::move(values));
}

// What is solved for: the common scale, what each factor has beyond it, and what each family has
// beside all of them. A row is one thing known of them, in standard deviations.
class Regression {
 public:
  explicit Regression(std::span<const MeasuredStep> runs) : runs_(runs) {
    for (const MeasuredStep& run : runs) {
      const auto found = std::ranges::find(families_, run.family);
      family_of_.push_back(kTimes + 1 + static_cast<int>(found - families_.begin()));
      if (found == families_.end()) families_.push_back(run.family);
    }
  }

  // The factors that fit best, the forecasts being as they change about `at`.
  [[nodiscard]] Logs improved(const Logs& at) const {
    const auto unknowns = static_cast<Eigen::Index>(kTimes + 1 + families_.size());
    const auto count = static_cast<Eigen::Index>(runs_.size());
    const auto families = static_cast<Eigen::Index>(families_.size());
    const Eigen::Index rows = count + families + kTimes;
    Eigen::MatrixXd a = Eigen::MatrixXd::Zero(rows, unknowns);
    Eigen::VectorXd y = Eigen::VectorXd::Zero(rows);
    // A row a run: the logarithm of its step, linear about `at` in the logarithms of the factors.
    for (Eigen::Index i = 0; i < count; ++i) {
      // Where a step's time goes: a factor moves the whole by as much as its part is of it.
      const auto run = static_cast<std::size_t>(i);
      const Logs share = shares(runs_[run], at);
      y(i) = residual(runs_[run], at);
      for (int j = 0; j < kTimes; ++j) {
        // Unknown 0 is what all factors have in common, so that one measured run moves them
        // together.
        a(i, 0) += share[j];
        a(i, 1 + j) = share[j];
        y(i) += share[j] * at[j];
      }
      a(i, family_of_[run]) = 1;
      // Runs of one plan differ by some share: an error of that size counts as one.
      a.row(i) /= kRepeats;
      y(i) /= kRepeats;
    }
    // What is expected of families and factors: nothing beyond the common scale.
    for (Eigen::Index f = 0; f < families; ++f) a(count + f, kTimes + 1 + f) = 1 / kFamily;
    for (Eigen::Index j = 0; j < kTimes; ++j) a(count + families + j, 1 + j) = 1 / kFactor;
    const Eigen::VectorXd x = solved(a, y, count + families);
    Logs logs{};
    for (int j = 0; j < kTimes; ++j) logs[j] = x(0) + x(1 + j);
    return logs;
  }

 private:
  // Of the step, by which factor it would grow: they sum to 1, the forecast being homogeneous.
  static Logs shares(const MeasuredStep& run, const Logs& at) {
    constexpr double kStep = 0.01;
    Logs share{};
    for (int j = 0; j < kTimes; ++j) {
      Logs more = at, less = at;
      more[j] += kStep;
      less[j] -= kStep;
      share[j] = (residual(run, less) - residual(run, more)) / (2 * kStep);
    }
    return share;
  }

  // Huber's loss of the first `robust` rows, squares of the others, by reweighting.
  static Eigen::VectorXd solved(const Eigen::MatrixXd& a, const Eigen::VectorXd& y,
                                Eigen::Index robust) {
    Eigen::VectorXd roots = Eigen::VectorXd::Ones(a.rows()), x;
    for (int pass = 0; pass < 50; ++pass) {
      x = (roots.asDiagonal() * a).colPivHouseholderQr().solve(roots.cwiseProduct(y));
      const Eigen::VectorXd sizes = (a * x - y).cwiseAbs();
      for (Eigen::Index i = 0; i < robust; ++i)
        roots(i) = std::sqrt(kHuberThreshold / std::max(kHuberThreshold, sizes(i)));
    }
    return x;
  }

  std::span<const MeasuredStep> runs_;
  std::vector<int> families_;
  std::vector<int> family_of_;  // by run: its column
};

// Steps are longest paths: shares change where another path becomes the longest, hence the passes.
Logs fitted(std::span<const MeasuredStep> runs, double common) {
  constexpr int kPasses = 12;
  constexpr double kStill = 1e-6;
  const Regression regression(runs);
  Logs at = all_alike(common);
  for (int pass = 0; pass < kPasses; ++pass) {
    const Logs next = regression.improved(at);
    double moved = 0;
    for (int j = 0; j < kTimes; ++j) moved = std::max(moved, std::abs(next[j] - at[j]));
    at = next;
    if (moved < kStill) break;
  }
  // A fit that ends worse than one common factor is not kept.
  const bool helps =
      median_size(residuals(runs, at)) <= median_size(residuals(runs, all_alike(common)));
  return helps ? at : all_alike(common);
}

// The one scale of time that all runs have in common, or none where none is better.
double common_scale(std::span<const MeasuredStep> runs) {
  const std::vector<double> misses = residuals(runs, all_alike(0));
  const double scale = median(misses);
  const bool helps = median_size(residuals(runs, all_alike(scale))) <= median_size(misses);
  return helps ? scale : 0;
}

void fit_memory(std::span<const MeasuredStep> runs, AnchorFit& fit) {
  std::vector<double> misses;
  for (const MeasuredStep& run : runs) {
    fit.memory_residuals.emplace_back();
    if (!run.memory) continue;
    fit.memory_residuals.back() = std::log(*run.memory / run.forecast(fit.factors).memory);
    misses.push_back(*fit.memory_residuals.back());
  }
  if (misses.empty()) return;
  const double scale = median(misses);
  std::vector<double> left = misses;
  for (double& value : left) value -= scale;
  // A factor that leaves the runs no nearer is not learnt.
  if (median_size(left) > median_size(misses)) return;
  fit.factors.memory = std::exp(scale);
  for (auto& miss : fit.memory_residuals) {
    if (miss) *miss -= scale;
  }
}

}  // namespace

AnchorFit fit_anchor(std::span<const MeasuredStep> runs) {
  const double common = common_scale(runs);
  const Logs logs = runs.size() == 1 ? all_alike(common) : fitted(runs, common);
  AnchorFit fit{.factors = factors_of(logs), .residuals = residuals(runs, logs)};
  fit_memory(runs, fit);
  return fit;
}

}  // namespace weir
