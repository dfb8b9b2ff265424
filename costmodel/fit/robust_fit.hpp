// Constants with lower bounds from rows that may hold outliers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace weir {

struct FitRow {
  std::vector<double> features;  // as many as there are constants, >= 0
  double target = 0;             // > 0
};

// x >= least that minimises the sum of Huber's loss of the relative residuals features . x / target
// - 1, by reweighted least squares (Huber 1964; threshold 1.345 times the scaled median absolute
// residual, at least 0.1 %). Each pass is exact: of every choice of constants that stay at their
// bound, the best one that keeps the others above. For a few constants (2^n solves).
[[nodiscard]] std::vector<double> robust_fit(const std::vector<FitRow>& rows,
                                             const std::vector<double>& least);

}  // namespace weir
