// What rate cases share: rows with a group each, one group left out at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tools/reproduce/rates/simplex.hpp"
#include "tools/reproduce/reproduction.hpp"

namespace weir {

// Constants that go by rows of one kind on one machine.
template <class Row>
struct RateFit {
  // Seconds of a row with these constants.
  std::function<double(const Row&, std::span<const double>)> time;
  std::vector<double> start;
  std::vector<double> limits = {};  // of each constant, where it has one; empty: none have

  // Least Huber loss of log(time / measured); rows count alike. Constants stay above 0 and within
  // their limits.
  [[nodiscard]] std::vector<double> constants(const std::vector<const Row*>& rows) const {
    constexpr double kWidth = 0.15;  // beyond it an error is a row's own
    const auto loss = [&](std::span<const double> x) {
      if (!allowed(x)) return std::numeric_limits<double>::max();
      double sum = 0;
      for (const Row* row : rows) sum += huber(std::log(time(*row, x) / row->seconds), kWidth);
      return sum;
    };
    return simplex_minimum(loss, start);
  }

 private:
  [[nodiscard]] bool allowed(std::span<const double> x) const {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] <= 0 || (i < limits.size() && x[i] > limits[i])) return false;
    }
    return true;
  }
};

// Forecasts each row with constants that were fitted without its group.
template <class Row>
[[nodiscard]] std::vector<double> left_out_times(const RateFit<Row>& fit,
                                                 const std::vector<const Row*>& rows) {
  std::map<std::string, std::vector<double>> without;
  for (const Row* row : rows) {
    if (without.contains(row->group)) continue;
    std::vector<const Row*> others;
    for (const Row* other : rows) {
      if (other->group != row->group) others.push_back(other);
    }
    without[row->group] = fit.constants(others);
  }
  std::vector<double> times;
  for (const Row* row : rows) times.push_back(fit.time(*row, without.at(row->group)));
  return times;
}

// Mean and worst |error| of a set of rows, for the notes.
struct RateErrors {
  int rows = 0;
  double sum = 0, worst = 0;
  void add(double error) {
    ++rows;
    sum += std::abs(error);
    worst = std::max(worst, std::abs(error));
  }
  [[nodiscard]] double mean() const { return sum / rows; }
};

}  // namespace weir
