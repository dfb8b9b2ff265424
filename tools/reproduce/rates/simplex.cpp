// Nelder and Mead's simplex.
// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/rates/simplex.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace weir {
namespace {

struct Corner {
  std::vector<double> x;
  double value = 0;
};

// a + t (b - a).
std::vector<double> along(const std::vector<double>& a, const std::vector<double>& b, double t) {
  std::vector<double> x(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) x[i] = a[i] + t * (b[i] - a[i]);
  return x;
}

std::vector<double> centre_of_all_but_the_last(const std::vector<Corner>& corners) {
  std::vector<double> centre(corners.front().x.size(), 0.0);
  for (std::size_t c = 0; c + 1 < corners.size(); ++c) {
    for (std::size_t i = 0; i < centre.size(); ++i)
      centre[i] += corners[c].x[i] / static_cast<double>(corners.size() - 1);
  }
  return centre;
}

}  // namespace

double huber(double error, double width) {
  const double size = std::abs(error);
  return size < width ? size * size / 2 : width * (size - width / 2);
}

std::vector<double> simplex_minimum(const std::function<double(std::span<const double>)>& value,
                                    const std::vector<double>& start) {
  constexpr int kSteps = 2000;
  constexpr double kAgree = 1e-10;
  const auto corner = [&](std::vector<double> x) {
    const double at = value(x);
    return Corner{std::move(x), at};
  };
  const auto lower = [](const Corner& a, const Corner& b) { return a.value < b.value; };
  std::vector<Corner> corners{corner(start)};
  // A tenth of each coordinate: the start's own scale, and no direction favoured.
  for (std::size_t i = 0; i < start.size(); ++i) {
    std::vector<double> moved = start;
    moved[i] *= 1.1;
    corners.push_back(corner(std::move(moved)));
  }
  for (int step = 0; step < kSteps; ++step) {
    // Stable: with equal values the order, and so the way taken, is the same every time.
    std::stable_sort(corners.begin(), corners.end(), lower);
    Corner& worst = corners.back();
    const double spread = worst.value - corners.front().value;
    if (spread <= kAgree * std::abs(corners.front().value)) break;
    // Reflection (Nelder and Mead 1965): through the centre of all others, away from the worst.
    const std::vector<double> centre = centre_of_all_but_the_last(corners);
    Corner reflected = corner(along(centre, worst.x, -1));
    if (reflected.value < corners.front().value) {
      // Better than the best: twice as far, if that is better still.
      Corner expanded = corner(along(centre, worst.x, -2));
      worst = std::move(reflected.value < expanded.value ? reflected : expanded);
    } else if (reflected.value < corners[corners.size() - 2].value) {
      // Not the worst any more: the reflection is enough.
      worst = std::move(reflected);
    } else if (Corner contracted = corner(along(centre, worst.x, 0.5));
               contracted.value < worst.value) {
      // Else half way towards the centre.
      worst = std::move(contracted);
    } else {
      // Nothing on the line through the worst is better: all corners move half way to the best.
      for (std::size_t c = 1; c < corners.size(); ++c)
        corners[c] = corner(along(corners.front().x, corners[c].x, 0.5));
    }
  }
  return std::min_element(corners.begin(), corners.end(), lower)->x;
}

}  // namespace weir
