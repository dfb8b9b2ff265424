// SPDX-License-Identifier: Apache-2.0
#include "costmodel/fit/robust_fit.hpp"

#include <gtest/gtest.h>

namespace weir::robust_fit_test {
namespace {

// y = 2 u + 3 v on ten rows, one of them ten times too large: the fit does not follow it; a bound
// holds.
TEST(RobustFit, ShrugsOffAnOutlierAndKeepsItsBounds) {
  std::vector<FitRow> rows;
  for (int i = 1; i <= 10; ++i) {
    const double u = i, v = 11 - i + (i % 3);
    rows.push_back({{u, v}, (2 * u + 3 * v) * (i == 4 ? 10 : 1)});
  }
  const std::vector<double> free = robust_fit(rows, {0, 0});
  EXPECT_NEAR(free[0], 2, 0.02);
  EXPECT_NEAR(free[1], 3, 0.02);
  EXPECT_EQ(robust_fit(rows, {0, 4})[1], 4);
}

}  // namespace
}  // namespace weir::robust_fit_test
