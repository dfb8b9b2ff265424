// Huber's fit with lower bounds: reweighted, non-negative least squares (docs/theory.md 8.1).
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/fit/robust_fit.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <limits>

#include "traces/stats.hpp"

namespace weir {
namespace {

// min |a x - y| with x >= 0, by trying every support.
Eigen::VectorXd non_negative_least_squares(const Eigen::MatrixXd& a, const Eigen::VectorXd& y) {
  const Eigen::Index n = a.cols();
  Eigen::VectorXd best = Eigen::VectorXd::Zero(n);
  double least = y.squaredNorm();
  // There are few unknowns: all subsets of them are tried, which is exact.
  for (unsigned support = 1; support < (1U << n); ++support) {
    std::vector<Eigen::Index> columns;
    for (Eigen::Index j = 0; j < n; ++j) {
      if ((support >> j & 1U) != 0) columns.push_back(j);
    }
    const Eigen::MatrixXd part = a(Eigen::all, columns);
    const Eigen::VectorXd x = part.colPivHouseholderQr().solve(y);
    const double loss = (part * x - y).squaredNorm();
    // A support whose solution is negative is covered by a smaller one.
    if (x.minCoeff() < 0 || loss >= least) continue;
    least = loss;
    best.setZero();
    best(columns) = x;
  }
  return best;
}

}  // namespace

std::vector<double> robust_fit(const std::vector<FitRow>& rows, const std::vector<double>& least) {
  const auto count = static_cast<Eigen::Index>(rows.size()),
             n = static_cast<Eigen::Index>(least.size());
  const Eigen::VectorXd bound = Eigen::Map<const Eigen::VectorXd>(least.data(), n);
  Eigen::MatrixXd a(count, n);
  for (Eigen::Index i = 0; i < count; ++i) {
    const FitRow& row = rows[static_cast<std::size_t>(i)];
    a.row(i) = Eigen::Map<const Eigen::RowVectorXd>(row.features.data(), n) / row.target;
  }
  // Shifted by the bounds, what is left to find is non-negative.
  const Eigen::VectorXd y = Eigen::VectorXd::Ones(count) - a * bound;
  Eigen::VectorXd weights = Eigen::VectorXd::Ones(count), above;
  for (int pass = 0; pass < 30; ++pass) {
    // Solve with the weights of the last pass, then give each row the weight that its residual
    // earns.
    const Eigen::VectorXd roots = weights.cwiseSqrt();
    above = non_negative_least_squares(roots.asDiagonal() * a, roots.cwiseProduct(y));
    const Eigen::VectorXd sizes = (a * above - y).cwiseAbs();
    std::vector<double> sorted(sizes.begin(), sizes.end());
    std::nth_element(sorted.begin(), sorted.begin() + count / 2, sorted.end());
    const double threshold =
        std::max(1e-3, kHuberThreshold * 1.4826 * sorted[static_cast<std::size_t>(count / 2)]);
    // 1 within the threshold, threshold / residual beyond.
    weights = (threshold / sizes.array().max(threshold)).matrix();
  }
  const Eigen::VectorXd x = bound + above;
  return {x.begin(), x.end()};
}

}  // namespace weir
